//! Applications of the file.

use super::Client;
use super::raw::{RawApplication, RawDomain};
use super::value::Wrong;
use crate::pkey::Program;
use crate::policy::{Grant, Rights};
use nix::unistd::{Uid, User};
use toml::Spanned;

/// Checks an application.
pub(super) fn client(raw: RawApplication) -> Result<Client, Wrong> {
    let (named, name) = (raw.name.span(), raw.name.get_ref().clone());
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        let why = "an application's name has 1 to 64 printable characters";
        return Err((named, why.to_owned()));
    }
    let grant = |text: &Spanned<String>| {
        let grant = text.get_ref().parse::<Grant>();
        grant.map_err(|e| (text.span(), format!("application '{name}': {e}")))
    };
    let bind = raw.bind.iter().map(grant).collect::<Result<_, _>>()?;
    let user = raw.user.get_ref();
    let (uid, gid) = match user.parse() {
        Ok(uid) => match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => (uid, user.gid.as_raw()),
            _ => (uid, uid),
        },
        Err(_) => match User::from_name(user) {
            Ok(Some(user)) => (user.uid.as_raw(), user.gid.as_raw()),
            _ => {
                let why = format!("application '{name}': no user '{user}' on this host");
                return Err((raw.user.span(), why));
            }
        },
    };
    let program = program(&name, uid, &raw)?;
    Ok(Client {
        name,
        uid,
        gid,
        program,
        rights: Rights {
            bind,
            connect: raw.connect,
            reserved: Vec::new(),
        },
    })
}

/// Program that the dataplane's own thread is to run.
fn program(name: &str, uid: u32, raw: &RawApplication) -> Result<Option<Program>, Wrong> {
    let domain = raw
        .domain
        .as_ref()
        .map(|domain| (*domain.get_ref(), domain.span()));
    let (is_guest, span) = match domain {
        Some((RawDomain::Pkey, span)) => (true, span),
        _ => (false, raw.name.span()),
    };
    match &raw.program {
        None if is_guest => {
            let why = format!(
                "application '{name}': domain = \"pkey\" needs a program, such as program = \"echo \
                    10.0.0.9:7\""
            );
            Err((span, why))
        }
        None => Ok(None),
        Some(program) if !is_guest => {
            let why = format!(
                "application '{name}': only one with domain = \"pkey\" has a program; others are \
                    processes that attach"
            );
            Err((program.span(), why))
        }
        Some(_) if uid == 0 => {
            let why = format!(
                "application '{name}': domain = \"pkey\" protects from no program of root, who may \
                    read and write all memory: give it another user"
            );
            Err((raw.user.span(), why))
        }
        Some(program) => {
            let parsed = program.get_ref().parse();
            parsed
                .map(Some)
                .map_err(|e| (program.span(), format!("application '{name}': {e}")))
        }
    }
}

/// Checks that one application, on a dataplane's only core, may run in its thread.
pub(super) fn allow_guest(name: &str, others: bool, cores: usize) -> Result<(), String> {
    if others {
        return Err(format!(
            "application '{name}': a dataplane runs one application with domain = \"pkey\""
        ));
    }
    if cores > 1 {
        return Err(format!(
            "application '{name}': domain = \"pkey\" needs a dataplane with one core"
        ));
    }
    Ok(())
}
