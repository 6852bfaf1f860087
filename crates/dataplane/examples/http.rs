//! A small HTTP server of `GET /` and `GET /bytes/N`: `http SOCKET NAME ADDRESS:PORT`.

use cofferdam_dataplane::applications::{Http, example};

fn main() -> std::process::ExitCode {
    example(Http::new)
}
