//! Sandbox of one script: namespaces of its own, because it writes sysctls, adds devices, and
//! leaves files in /tmp.

use super::options::Ip;
use super::outcome::{Outcome, message};
use crate::run::as_root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Time limit of a script, seconds: the longest waits two minutes in real time.
const LIMIT_S: u32 = 180;
/// Time limit with the shim's clock, seconds, for which a script does not wait.
const SHIM_LIMIT_S: u32 = 60;
/// Exit code of timeout(1) when it ended the command.
const TIMED_OUT: i32 = 124;
const KILLED: i32 = 137;

/// Script that prepares the namespaces: a loopback, a private /tmp, and, for the shim, whose
/// packets pass no device, the device that scripts configure.
const BEFORE: &str = r#"
ip link set lo up
mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work &&
    mount -t overlay overlay -o lowerdir=/tmp,upperdir=/mnt/upper,workdir=/mnt/work /tmp
if [ "$DEVICE" ]; then
    ip tuntap add tun0 mode tun && ip link set tun0 up
fi
cd "$FOLDER" && exec "$@"
"#;

/// Way to run scripts.
#[derive(Debug)]
pub struct Sandbox {
    pub program: PathBuf,
    /// Library of the shim; `None` for the kernel's stack.
    pub shim: Option<PathBuf>,
    pub ip: Ip,
    pub folder: PathBuf,
}

impl Sandbox {
    /// Runs one script, by its path in the folder.
    pub fn run(&self, script: &str) -> Outcome {
        let path = self.folder.join(script);
        let (limit, device) = match self.shim {
            Some(_) => (SHIM_LIMIT_S, "tun0"),
            None => (LIMIT_S, ""),
        };
        let folder = path.parent().unwrap_or(&self.folder);
        // `sudo` keeps only environment variables that are passed by name.
        let mut command = Command::new("env");
        command
            .args(as_root())
            .arg("env")
            .arg(format!("FOLDER={}", folder.display()))
            .arg(format!("DEVICE={device}"))
            .arg("timeout")
            .arg("--kill-after=5")
            .arg(limit.to_string())
            .args([
                "unshare", "--net", "--mount", "--", "sh", "-c", BEFORE, "sh",
            ])
            .arg(&self.program)
            .args(arguments(self.ip, &script_options(&path)))
            .stdin(Stdio::null());
        if let Some(shim) = &self.shim {
            command.arg(format!("--so_filename={}", shim.display()));
        }
        // Scripts call files next to them by relative paths.
        command.arg(path.file_name().unwrap_or_default());
        match command.output() {
            Ok(output) => outcome(script, &output),
            Err(error) => Outcome::Failed(format!("cannot run timeout(1): {error}")),
        }
    }
}

fn outcome(script: &str, output: &Output) -> Outcome {
    match output.status.code() {
        Some(0) => Outcome::Passed,
        Some(TIMED_OUT | KILLED) => Outcome::TimedOut,
        _ => {
            let all = [&output.stdout[..], &output.stderr].concat();
            let text = message(script, &String::from_utf8_lossy(&all));
            Outcome::Failed(if text.is_empty() {
                format!("{}, and no message", output.status)
            } else {
                text
            })
        }
    }
}

/// Options at the start of a script: lines that begin with two dashes.
fn script_options(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    (lines.filter(|line| line.starts_with("--")))
        .map(str::to_owned)
        .collect()
}

/// Addresses, and the definitions that scripts take from the command line. A Fast Open cookie is
/// SipHash-2-4 of both addresses, with the key that scripts set.
fn arguments(ip: Ip, own: &[String]) -> Vec<String> {
    let words = match ip {
        Ip::V4 => {
            "--ip_version=ipv4 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1 \
             --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb \
             -D CODE=host_unreachable -D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR"
        }
        Ip::V6 => {
            "--ip_version=ipv6 --mtu=1520 --local_ip=fd3d:0a0b:17d6::1 \
             --gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1 \
             -D TFO_COOKIE=c1d1e9742a47a9bc -D CODE=address_unreachable -D CMSG_LEVEL_IP=SOL_IPV6 \
             -D CMSG_TYPE_RECVERR=IPV6_RECVERR"
        }
        // The packets are IPv4's, the addresses of the socket are IPv6's.
        Ip::Mapped => {
            "--ip_version=ipv4-mapped-ipv6 --local_ip=192.168.0.1 --gateway_ip=192.168.0.1 \
             --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1 -D TFO_COOKIE=3021b9d889017eeb \
             -D CODE=host_unreachable -D CMSG_LEVEL_IP=SOL_IPV6 \
             -D CMSG_TYPE_RECVERR=IPV6_RECVERR"
        }
    };
    let usual = std::iter::once("--send_omit_free");
    // An option in the script itself overrides these.
    let is_own = |word: &str| {
        let name = word.split('=').next();
        own.iter().any(|own| own.split('=').next() == name)
    };
    (usual.chain(words.split_whitespace()))
        .filter(|word| !word.starts_with("--") || !is_own(word))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn ended(status: i32, stderr: &str) -> Outcome {
        outcome(
            "a/b.pkt",
            &Output {
                status: std::process::ExitStatus::from_raw(status << 8),
                stdout: Vec::new(),
                stderr: stderr.as_bytes().to_vec(),
            },
        )
    }

    #[test]
    fn an_exit_status_is_an_outcome() {
        assert_eq!(ended(0, "noise"), Outcome::Passed);
        assert_eq!(ended(TIMED_OUT, ""), Outcome::TimedOut);
        assert_eq!(ended(KILLED, ""), Outcome::TimedOut);
        assert_eq!(
            ended(1, "b.pkt:3: no"),
            Outcome::Failed("b.pkt:3: no".into())
        );
        assert!(matches!(ended(2, ""), Outcome::Failed(text) if text.contains("exit status: 2")));
    }
}
