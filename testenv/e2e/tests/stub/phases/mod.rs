//! Single phases, in an Envoy that runs from files: request info alone, policies alone, identity alone.

mod identity;
mod policy;
mod request_info;
mod spellings;

use portcullis_e2e::PlainFiles;
use portcullis_harness::deps;
use portcullis_stub_apiserver::{Record, StubOptions};

use crate::fixture::ROBOT;
use crate::plain::{Plain, for_1_38};

/// In front of a stub that lets the robot impersonate.
fn start(mode: &'static str, change: impl FnOnce(&PlainFiles)) -> Plain {
    start_on(mode, None, change)
}

fn start_on(mode: &'static str, version: Option<String>, change: impl FnOnce(&PlainFiles)) -> Plain {
    let is_old = version.as_deref().is_some_and(|version| version.starts_with("1.38"));
    let robot = |options: &mut StubOptions| options.impersonators.push("robot".to_owned());
    Plain::before(mode, version, robot, |files| {
        change(files);
        if is_old {
            for_1_38(files);
        } else if deps::runs_wasm() {
            files.use_wasm(&deps::wasm().unwrap()).unwrap();
        }
    })
}

fn bearer() -> String {
    format!("Bearer {ROBOT}")
}

/// As whom the server handled a request.
fn acted_as(record: &Record) -> &str {
    record.effective.as_ref().map_or("", |user| &user.username)
}
