//! `key=value` words of a line.

use crate::Failure;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Parameters that nobody has read yet.
pub struct Params {
    values: BTreeMap<String, String>,
}

impl Params {
    /// Parses the words of a line.
    pub fn parse(words: &[&str]) -> Result<Params, Failure> {
        let mut values = BTreeMap::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(format!("'{word}' is not key=value"));
            };
            if values.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(format!("'{key}' is given twice"));
            }
        }
        Ok(Params { values })
    }

    /// Removes and returns the value of a required key.
    pub fn need<T: FromStr>(&mut self, key: &str) -> Result<T, Failure> {
        let value = self
            .values
            .remove(key)
            .ok_or_else(|| format!("'{key}' is missing"))?;
        value
            .parse()
            .map_err(|_| format!("'{key}' may not be '{value}'"))
    }

    /// Fails if a parameter is left.
    pub fn finish(self) -> Result<(), Failure> {
        match self.values.into_keys().next() {
            Some(key) => Err(format!("unknown key '{key}'")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_once_and_strays_are_named() {
        let mut params = Params::parse(&["cpus=0.5", "x=1"]).unwrap();
        assert_eq!(params.need::<f64>("cpus"), Ok(0.5));
        assert_eq!(params.need::<f64>("cpus").unwrap_err(), "'cpus' is missing");
        assert_eq!(params.finish().unwrap_err(), "unknown key 'x'");
        assert!(Params::parse(&["a=1", "a=2"]).is_err());
        assert!(Params::parse(&["nonsense"]).is_err());
        let mut params = Params::parse(&["n=many"]).unwrap();
        assert_eq!(
            params.need::<u64>("n").unwrap_err(),
            "'n' may not be 'many'"
        );
    }
}
