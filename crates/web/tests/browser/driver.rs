//! Browser over the WebDriver protocol: chromedriver and a headless Chromium for one test.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a state of the page.
const PATIENCE: Duration = Duration::from_secs(30);
/// Key of an element in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Browser {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver must be installed: scripts/setup test");
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Browser {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "chromedriver does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let data = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--disable-extensions",
            "--force-color-profile=srgb",
            &data,
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let session = browser.call("POST", "/session", &capabilities);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        match self.try_call(method, path, body) {
            Ok(value) => value,
            Err(why) => panic!("{method} {path}: {why}"),
        }
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|e| e.to_string())?;
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream
            .write_all(head.as_bytes())
            .map_err(|e| e.to_string())?;
        stream
            .write_all(body.as_bytes())
            .map_err(|e| e.to_string())?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(|e| e.to_string())?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        let value = answer["value"].clone();
        match value.get("error") {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs `script`, the body of a function, and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    pub fn text(&self, script: &str) -> String {
        self.run(&format!("return String({script})"))
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Waits until `condition`, an expression, is true.
    pub fn wait(&self, condition: &str) {
        let begun = Instant::now();
        while self.run(&format!("return Boolean({condition})")) != json!(true) {
            if begun.elapsed() >= PATIENCE {
                let seen = self.text("document.body.innerText.slice(0, 1500)");
                panic!(
                    "not within {PATIENCE:?}: {condition}\n{seen}\n{:?}",
                    self.console()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks like a user: an element on top gets the click.
    pub fn click(&self, selector: &str) {
        let found = self.post(
            "/element",
            &json!({"using": "css selector", "value": selector}),
        );
        let id = found[ELEMENT].as_str().unwrap().to_owned();
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// Types keys into the focused element; WebDriver has codes for keys without a letter.
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
            })
            .collect();
        self.post(
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Sets the width and height of the page itself.
    pub fn size(&self, width: u32, height: u32) {
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    pub fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.post(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    /// Saves a picture of the whole page.
    pub fn picture(&self, file: &Path) {
        let shot = self.cdp(
            "Page.captureScreenshot",
            json!({"captureBeyondViewport": true}),
        );
        std::fs::write(file, base64(shot["data"].as_str().unwrap())).unwrap();
    }

    /// Errors and warnings of the console since the last call.
    pub fn console(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"}));
        let all = entries.as_array().unwrap().iter();
        all.map(|e| format!("{} {}", e["level"], e["message"]))
            .collect()
    }

    /// URLs that were requested since the last call.
    pub fn requested(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "performance"}));
        let messages = entries.as_array().unwrap().iter().filter_map(|e| {
            let message: Value = serde_json::from_str(e["message"].as_str()?).ok()?;
            let sent = message["message"]["method"] == "Network.requestWillBeSent";
            let url = message["message"]["params"]["request"]["url"].as_str()?;
            sent.then(|| url.to_owned())
        });
        messages.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            let _ = self.try_call("DELETE", &path, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Decodes a text in base 64.
fn base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|b| *b != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
