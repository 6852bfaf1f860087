//! A cache in memory with memcached's text protocol: get, gets, set, delete, stats, version, quit.
//! The store knows no transport, so that servers on the dataplane and on sockets share it.

use std::collections::HashMap;
use std::io::Write;

/// Bytes of the longest key, as in memcached. The constant below is the largest value.
const MOST_KEY: usize = 250;
const MOST_VALUE: usize = 1 << 20;
/// Bytes of the longest command line.
const MOST_LINE: usize = 2048;

struct Item {
    flags: u32,
    unique: u64,
    value: Vec<u8>,
}

/// The cache. Its memory is bounded: a set beyond the limit is refused.
pub struct Store {
    items: HashMap<Vec<u8>, Item>,
    most_bytes: usize,
    bytes: usize,
    unique: u64,
    answer: Vec<u8>,
    gets: u64,
    hits: u64,
    sets: u64,
}

/// Outcome of a piece of input.
enum Step {
    /// The command has this number of bytes.
    Done(usize),
    /// The command is not complete.
    More,
    /// The client wants to end, or uses another protocol.
    End,
}

impl Store {
    /// A cache of at most `most_bytes` of keys and values.
    pub fn new(most_bytes: usize) -> Store {
        Store {
            items: HashMap::new(),
            most_bytes,
            bytes: 0,
            unique: 0,
            answer: Vec::with_capacity(64 << 10),
            gets: 0,
            hits: 0,
            sets: 0,
        }
    }

    /// Serves the commands in `data`, which follows `partial` on its connection. An incomplete
    /// command stays in `partial`. Returns the answer, valid until the next call, and whether the
    /// connection stays open.
    pub fn serve(&mut self, partial: &mut Vec<u8>, data: &[u8]) -> (&[u8], bool) {
        self.answer.clear();
        let goes_on = if partial.is_empty() {
            let (left, goes_on) = self.commands(data);
            partial.extend_from_slice(data.get(data.len() - left..).unwrap_or_default());
            goes_on
        } else {
            partial.extend_from_slice(data);
            let joined = std::mem::take(partial);
            let (left, goes_on) = self.commands(&joined);
            *partial = joined;
            partial.drain(..partial.len() - left);
            goes_on
        };
        (&self.answer, goes_on)
    }

    /// Number of gets and sets answered so far.
    pub fn commands_answered(&self) -> u64 {
        self.gets + self.sets
    }

    /// Serves all complete commands. Returns the number of bytes that are left, and whether the
    /// connection stays open.
    fn commands(&mut self, mut rest: &[u8]) -> (usize, bool) {
        while !rest.is_empty() {
            match self.step(rest) {
                Step::Done(len) => rest = rest.get(len..).unwrap_or_default(),
                Step::More => break,
                Step::End => return (0, false),
            }
        }
        (rest.len(), true)
    }

    fn step(&mut self, input: &[u8]) -> Step {
        let Some(end) = input.iter().position(|b| *b == b'\n') else {
            return if input.len() > MOST_LINE {
                Step::End
            } else {
                Step::More
            };
        };
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut words = line.split(|b| *b == b' ').filter(|w| !w.is_empty());
        match words.next() {
            Some(b"get") => self.get(words, false),
            Some(b"gets") => self.get(words, true),
            Some(b"set") => return self.set(words, input, end + 1),
            Some(b"delete") => {
                let key = words.next().unwrap_or_default();
                let answer: &[u8] = match self.items.remove(key) {
                    Some(item) => {
                        self.bytes -= key.len() + item.value.len();
                        b"DELETED\r\n"
                    }
                    None => b"NOT_FOUND\r\n",
                };
                self.answer.extend_from_slice(answer);
            }
            Some(b"stats") => {
                for (name, value) in [
                    ("curr_items", self.items.len() as u64),
                    ("bytes", self.bytes as u64),
                    ("cmd_get", self.gets),
                    ("get_hits", self.hits),
                    ("cmd_set", self.sets),
                ] {
                    // Writing to memory cannot fail.
                    let _ = write!(self.answer, "STAT {name} {value}\r\n");
                }
                self.answer.extend_from_slice(b"END\r\n");
            }
            Some(b"version") => {
                let version = concat!("VERSION cofferdam-", env!("CARGO_PKG_VERSION"), "\r\n");
                self.answer.extend_from_slice(version.as_bytes());
            }
            Some(b"quit") => return Step::End,
            _ => self.answer.extend_from_slice(b"ERROR\r\n"),
        }
        Step::Done(end + 1)
    }

    fn get<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>, with_unique: bool) {
        for key in keys {
            self.gets += 1;
            let Some(item) = self.items.get(key) else {
                continue;
            };
            self.hits += 1;
            let out = &mut self.answer;
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            let _ = write!(out, " {} {}", item.flags, item.value.len());
            if with_unique {
                let _ = write!(out, " {}", item.unique);
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&item.value);
            out.extend_from_slice(b"\r\n");
        }
        self.answer.extend_from_slice(b"END\r\n");
    }

    fn set<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a [u8]>,
        input: &[u8],
        start: usize,
    ) -> Step {
        let key = words.next().unwrap_or_default().to_vec();
        let mut number = || {
            let text = std::str::from_utf8(words.next().unwrap_or_default()).ok();
            text.and_then(|t| t.parse::<u64>().ok())
        };
        let (Some(flags), Some(_expires), Some(len)) = (number(), number(), number()) else {
            self.answer
                .extend_from_slice(b"CLIENT_ERROR bad command line format\r\n");
            return Step::Done(start);
        };
        let quiet = words.next() == Some(b"noreply");
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if key.is_empty() || key.len() > MOST_KEY || len > MOST_VALUE {
            self.answer
                .extend_from_slice(b"SERVER_ERROR object too large for cache\r\n");
            // The value follows, and its end is not known safely.
            return Step::End;
        }
        let Some(value) = input.get(start..start + len + 2) else {
            return Step::More;
        };
        let Some(value) = value.strip_suffix(b"\r\n") else {
            self.answer
                .extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
            return Step::End;
        };
        self.sets += 1;
        self.unique += 1;
        let old = self
            .items
            .get(&key)
            .map_or(0, |i| key.len() + i.value.len());
        let stored = self.bytes - old + key.len() + len <= self.most_bytes;
        if stored {
            self.bytes = self.bytes - old + key.len() + len;
            let item = Item {
                flags: flags as u32,
                unique: self.unique,
                value: value.to_vec(),
            };
            self.items.insert(key, item);
        }
        if !quiet {
            let answer: &[u8] = if stored {
                b"STORED\r\n"
            } else {
                b"SERVER_ERROR out of memory storing object\r\n"
            };
            self.answer.extend_from_slice(answer);
        }
        Step::Done(start + len + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(server: &mut Store, input: &[u8]) -> String {
        let (answer, _) = server.serve(&mut Vec::new(), input);
        String::from_utf8_lossy(answer).into_owned()
    }

    fn server() -> Store {
        Store::new(1000)
    }

    /// Promise 46.
    #[test]
    fn commands_may_come_in_pieces_of_any_size() {
        let all = b"set a 7 0 3\r\nx\nz\r\nget a\r\nget b a\r\nquit\r\nget a\r\n";
        let whole = "STORED\r\nVALUE a 7 3\r\nx\nz\r\nEND\r\nVALUE a 7 3\r\nx\nz\r\nEND\r\n";
        for size in 1..all.len() {
            let (mut server, mut partial, mut answers) = (server(), Vec::new(), Vec::new());
            for piece in all.chunks(size) {
                let (answer, goes_on) = server.serve(&mut partial, piece);
                answers.extend_from_slice(answer);
                if !goes_on {
                    break;
                }
            }
            assert_eq!(
                String::from_utf8_lossy(&answers),
                whole,
                "in pieces of {size}"
            );
        }
    }

    #[test]
    fn values_are_stored_found_and_deleted() {
        let mut server = server();
        assert_eq!(answer(&mut server, b"set a 7 0 3\r\nxyz\r\n"), "STORED\r\n");
        assert_eq!(
            answer(&mut server, b"get a b\r\n"),
            "VALUE a 7 3\r\nxyz\r\nEND\r\n"
        );
        assert_eq!(
            answer(&mut server, b"delete a\r\ndelete a\r\n"),
            "DELETED\r\nNOT_FOUND\r\n"
        );
        assert_eq!(answer(&mut server, b"get a\r\n"), "END\r\n");
        assert_eq!(answer(&mut server, b"set a 0 0 1 noreply\r\nq\r\n"), "");
        assert!(answer(&mut server, b"stats\r\n").contains("STAT curr_items 1\r\n"));
    }

    #[test]
    fn what_is_too_large_or_malformed_is_refused() {
        let mut server = server();
        assert!(answer(&mut server, b"set a 0 0 2000000\r\n").contains("too large"));
        assert!(answer(&mut server, b"set a 0 0\r\n").contains("CLIENT_ERROR"));
        assert_eq!(answer(&mut server, b"nonsense\r\n"), "ERROR\r\n");
        let mut long = b"set a 0 0 1000\r\n".to_vec();
        long.extend(vec![b'x'; 1000]);
        long.extend(b"\r\n");
        assert!(answer(&mut server, &long).contains("out of memory"));
        assert_eq!(server.bytes, 0);
    }

    #[test]
    fn random_bytes_never_panic_and_memory_stays_bounded() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut server = server();
        let words: [&[u8]; 8] = [
            b"set ",
            b"get ",
            b"delete ",
            b"a ",
            b"0 0 3\r\n",
            b"xyz\r\n",
            b"stats\r\n",
            b"\xff\0",
        ];
        for _ in 0..5000 {
            let mut input = Vec::new();
            for _ in 0..random.usize(1..12) {
                input.extend_from_slice(words[random.usize(..words.len())]);
            }
            answer(&mut server, &input);
            assert!(server.bytes <= 1000);
        }
    }
}
