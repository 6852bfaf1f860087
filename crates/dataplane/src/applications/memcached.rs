//! A small server of memcached's text protocol: get, gets, set, delete, stats, version, quit.

use super::{BACKLOG, refused};
use crate::session::{Application, Connection, Event, Session};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Longest key and largest value, as memcached's own.
const MOST_KEY: usize = 250;
const MOST_VALUE: usize = 1 << 20;
/// Longest command line.
const MOST_LINE: usize = 2048;

struct Item {
    flags: u32,
    unique: u64,
    value: Vec<u8>,
}

/// A memcached-protocol server. Bounded: a set beyond the memory limit is refused.
pub struct Memcached {
    address: SocketAddr,
    items: HashMap<Vec<u8>, Item>,
    partial: HashMap<Connection, Vec<u8>>,
    most_bytes: usize,
    bytes: usize,
    unique: u64,
    answer: Vec<u8>,
    gets: u64,
    hits: u64,
    sets: u64,
}

/// What a piece of input asked for.
enum Step {
    /// So many bytes were a command.
    Done(usize),
    /// The rest has not come yet.
    More,
    /// The client wants to go, or speaks something else.
    End,
}

impl Memcached {
    /// Serves `address`, with at most `most_bytes` of keys and values.
    pub fn new(address: SocketAddr, most_bytes: usize) -> Memcached {
        Memcached {
            address,
            items: HashMap::new(),
            partial: HashMap::new(),
            most_bytes,
            bytes: 0,
            unique: 0,
            answer: Vec::with_capacity(64 << 10),
            gets: 0,
            hits: 0,
            sets: 0,
        }
    }

    fn received(&mut self, session: &mut Session, connection: Connection, data: &[u8]) {
        let mut joined = self.partial.remove(&connection);
        if let Some(joined) = &mut joined {
            joined.extend_from_slice(data);
        }
        let mut rest = joined.as_deref().unwrap_or(data);
        let mut ends = false;
        while !rest.is_empty() && !ends {
            match self.step(rest) {
                Step::Done(len) => rest = rest.get(len..).unwrap_or_default(),
                Step::More => break,
                Step::End => ends = true,
            }
        }
        if !self.answer.is_empty() {
            let answer = std::mem::take(&mut self.answer);
            if session.send(connection, &answer) < answer.len() {
                // It asks for more than it reads: half an answer is worse than none.
                session.abort(connection);
            }
            self.answer = answer;
            self.answer.clear();
        }
        if ends {
            session.close(connection);
        } else if !rest.is_empty() {
            let rest = rest.to_vec();
            self.partial.insert(connection, rest);
        }
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
                    self.answer
                        .extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
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
            let unique = if with_unique {
                format!(" {}", item.unique)
            } else {
                String::new()
            };
            out.extend_from_slice(
                format!(" {} {}{unique}\r\n", item.flags, item.value.len()).as_bytes(),
            );
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
            // What follows is the value: there is no telling where it ends safely.
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

impl Application for Memcached {
    fn start(&mut self, session: &mut Session) {
        session.listen(self.address, BACKLOG);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, data } => self.received(session, connection, &data),
            Event::PeerClosed(connection) => session.close(connection),
            Event::Dead { connection, .. } => {
                self.partial.remove(&connection);
            }
            Event::Bound {
                result: Err(why), ..
            } => refused(self.address, why),
            Event::Bound { .. }
            | Event::Connected(_)
            | Event::Sent { .. }
            | Event::Datagram { .. }
            | Event::Timer(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(server: &mut Memcached, mut input: &[u8]) -> String {
        server.answer.clear();
        while !input.is_empty() {
            match server.step(input) {
                Step::Done(len) => input = &input[len..],
                Step::More | Step::End => break,
            }
        }
        String::from_utf8_lossy(&server.answer).into_owned()
    }

    fn server() -> Memcached {
        Memcached::new(SocketAddr::from(([127, 0, 0, 1], 1)), 1000)
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
