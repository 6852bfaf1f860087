//! A small HTTP server: `GET /`, `GET /bytes/N`.: `http SOCKET NAME ADDRESS:PORT`.

use cofferdam_dataplane::applications::{Http, example};

fn main() -> std::process::ExitCode {
    example(Http::new)
}
