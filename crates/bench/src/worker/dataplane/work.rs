//! Requests to a server: an echo, or the mixes of Facebook's memcached with which IX was measured.
//!
//! Sources: Belay et al., OSDI'14, section 5.5. ETC has keys of 20 to 70 bytes, values of 1 byte to
//! 1 KiB, and 75% gets; USR has keys under 20 bytes, values of 2 bytes, and 99% gets. The
//! distributions within these bounds are from Atikoglu et al., SIGMETRICS'12, section 5 (ETC: key
//! sizes generalized extreme value, value sizes generalized Pareto). All keys are equally frequent.

use cofferdam_dataplane::applications::Request;
use std::fmt::{self, Display};
use std::str::FromStr;

/// Keys of a mix, and length of the repeated table of requests.
const KEYS: usize = 10_000;
const TABLE: usize = 32_768;

/// Work of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Sends back messages of this number of bytes.
    Echo(u32),
    /// memcached with nearly only gets of tiny values.
    Usr,
    /// memcached with a quarter of sets and values up to 1 KiB.
    Etc,
}

impl Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Echo(bytes) => write!(f, "echo:{bytes}"),
            Work::Usr => f.write_str("usr"),
            Work::Etc => f.write_str("etc"),
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let bytes = text.strip_prefix("echo:").and_then(|n| n.parse().ok());
        match (text, bytes) {
            (_, Some(bytes)) if bytes > 0 => Ok(Work::Echo(bytes)),
            ("usr", _) => Ok(Work::Usr),
            ("etc", _) => Ok(Work::Etc),
            _ => Err("it is echo:BYTES, usr or etc".to_owned()),
        }
    }
}

/// One key and its value.
struct Item {
    key: String,
    value: String,
}

impl Work {
    /// Requests to prepare the server, and requests to measure, drawn with a fixed seed.
    pub fn requests(self) -> (Vec<Request>, Vec<Request>) {
        let gets = match self {
            Work::Echo(bytes) => {
                let request = Request {
                    bytes: vec![b'a'; bytes as usize],
                    answer_bytes: bytes,
                    first: b'a',
                };
                return (Vec::new(), vec![request]);
            }
            Work::Usr => 0.99,
            Work::Etc => 0.75,
        };
        let mut random = fastrand::Rng::with_seed(2012);
        let items: Vec<Item> = (0..KEYS).map(|n| self.item(n, &mut random)).collect();
        let before = items.iter().map(set).collect();
        let mut draw = || {
            let item = &items[random.usize(..items.len())];
            if random.f64() < gets {
                get(item)
            } else {
                set(item)
            }
        };
        (before, (0..TABLE).map(|_| draw()).collect())
    }

    fn item(self, number: usize, random: &mut fastrand::Rng) -> Item {
        let (key_bytes, value_bytes) = match self {
            Work::Etc => (
                draw_between(20.0, 70.0, || extreme_value(random.f64())),
                draw_between(1.0, 1024.0, || pareto(random.f64())),
            ),
            Work::Usr | Work::Echo(_) => (16, 2),
        };
        Item {
            key: format!("{number:0key_bytes$}"),
            value: "v".repeat(value_bytes),
        }
    }
}

fn set(item: &Item) -> Request {
    Request {
        bytes: format!(
            "set {} 0 0 {}\r\n{}\r\n",
            item.key,
            item.value.len(),
            item.value
        )
        .into_bytes(),
        answer_bytes: "STORED\r\n".len() as u32,
        first: b'S',
    }
}

fn get(item: &Item) -> Request {
    let answer = format!(
        "VALUE {} 0 {}\r\n{}\r\nEND\r\n",
        item.key,
        item.value.len(),
        item.value
    );
    Request {
        bytes: format!("get {}\r\n", item.key).into_bytes(),
        answer_bytes: answer.len() as u32,
        first: b'V',
    }
}

/// Draws until the value lies within the bounds; returns a whole number.
fn draw_between(least: f64, most: f64, mut draw: impl FnMut() -> f64) -> usize {
    loop {
        let drawn = draw();
        if (least..=most).contains(&drawn) {
            return drawn as usize;
        }
    }
}

/// ETC's key sizes: location 30.7984, scale 8.20449, shape 0.078688.
fn extreme_value(uniform: f64) -> f64 {
    const SHAPE: f64 = 0.078_688;
    let log = -uniform.max(f64::MIN_POSITIVE).ln();
    30.7984 + 8.20449 * (log.powf(-SHAPE) - 1.0) / SHAPE
}

/// ETC's value sizes: location 0, scale 214.476, shape 0.348238.
fn pareto(uniform: f64) -> f64 {
    const SHAPE: f64 = 0.348_238;
    214.476 * ((1.0 - uniform).powf(-SHAPE) - 1.0) / SHAPE
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_dataplane::applications::Store;

    fn share_of_gets(requests: &[Request]) -> f64 {
        let gets = requests.iter().filter(|r| r.first == b'V').count();
        gets as f64 / requests.len() as f64
    }

    /// Promise 46.
    #[test]
    fn every_request_gets_just_the_answer_that_it_expects() {
        for work in [Work::Usr, Work::Etc] {
            let mut store = Store::new(64 << 20);
            let (before, then) = work.requests();
            for request in before.iter().chain(&then) {
                let (answer, goes_on) = store.serve(&mut Vec::new(), &request.bytes);
                assert_eq!(answer.len(), request.answer_bytes as usize);
                assert_eq!(answer[0], request.first);
                assert!(goes_on);
            }
        }
    }

    /// Promise 46.
    #[test]
    fn the_mixes_are_the_published_ones() {
        let (usr, etc) = (Work::Usr.requests(), Work::Etc.requests());
        assert!((share_of_gets(&usr.1) - 0.99).abs() < 0.005);
        assert!((share_of_gets(&etc.1) - 0.75).abs() < 0.01);
        assert!(usr.0.iter().all(|r| r.bytes.len() < 40));
        // The published medians are 33.8 bytes of key for the extreme-value distribution, and 168
        // bytes of value for the Pareto one. The bounds change both a little.
        let median = |mut all: Vec<usize>| {
            all.sort_unstable();
            all[all.len() / 2]
        };
        let mut random = fastrand::Rng::with_seed(1);
        let items: Vec<Item> = (0..KEYS).map(|n| Work::Etc.item(n, &mut random)).collect();
        let keys = median(items.iter().map(|i| i.key.len()).collect());
        let values = median(items.iter().map(|i| i.value.len()).collect());
        assert!((32..=38).contains(&keys), "{keys}");
        assert!((120..=175).contains(&values), "{values}");
        assert!(items.iter().all(|i| (20..=70).contains(&i.key.len())));
        assert!(items.iter().all(|i| (1..=1024).contains(&i.value.len())));
    }

    #[test]
    fn a_works_name_is_read_back() {
        for work in [Work::Echo(64), Work::Usr, Work::Etc] {
            assert_eq!(work.to_string().parse(), Ok(work));
        }
        assert!("echo:0".parse::<Work>().is_err() && "x".parse::<Work>().is_err());
    }
}
