//! `--key value` arguments of a worker. No person types them, so there is no help.

use super::Failure;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// Arguments that were not read yet.
pub(crate) struct Args {
    pub kind: String,
    values: BTreeMap<String, Vec<String>>,
}

impl Args {
    pub fn parse(args: &[String]) -> Result<Args, Failure> {
        let (kind, rest) = args.split_first().ok_or("no kind given")?;
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in rest.chunks(2) {
            match pair {
                [key, value] if key.starts_with("--") => {
                    values
                        .entry(key[2..].to_owned())
                        .or_default()
                        .push(value.clone());
                }
                _ => return Err(format!("'{}' is not a --key with a value", pair[0])),
            }
        }
        Ok(Args {
            kind: kind.clone(),
            values,
        })
    }

    /// Removes and returns all values of a key that may be repeated.
    pub fn all(&mut self, key: &str) -> Vec<String> {
        self.values.remove(key).unwrap_or_default()
    }

    /// Removes and returns the value of a key, if given.
    pub fn take<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<Option<T>, Failure> {
        match self.all(key).as_slice() {
            [] => Ok(None),
            [one] => match one.parse() {
                Ok(value) => Ok(Some(value)),
                Err(e) => Err(format!("--{key} {one}: {e}")),
            },
            _ => Err(format!("--{key} is given twice")),
        }
    }

    /// Removes and returns the value of a required key.
    pub fn need<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<T, Failure> {
        self.take(key)?.ok_or_else(|| format!("--{key} is missing"))
    }

    /// Refuses the arguments that nobody read: a misspelt key must not change an experiment
    /// silently.
    pub fn finish(self) -> Result<(), Failure> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("--{key} is not known to '{}'", self.kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Result<Args, Failure> {
        Args::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn takes_and_refuses() {
        let mut a = args("burn --cpu 1 --join /a --join /b --odd x").unwrap();
        assert_eq!(a.take::<u32>("cpu").unwrap(), Some(1));
        assert_eq!(a.all("join"), ["/a", "/b"]);
        assert!(
            a.need::<u32>("flows")
                .unwrap_err()
                .contains("--flows is missing")
        );
        assert!(a.finish().unwrap_err().contains("--odd is not known"));
        assert!(args("burn --cpu").is_err());
        assert!(args("burn --cpu x").unwrap().take::<u32>("cpu").is_err());
    }
}
