//! A small server of memcached's text protocol: `memcached SOCKET NAME ADDRESS:PORT`.

use cofferdam_dataplane::applications::{Memcached, example};

fn main() -> std::process::ExitCode {
    example(|address| Memcached::new(address, 64 << 20))
}
