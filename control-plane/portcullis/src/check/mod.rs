//! `portcullis check`: what is wrong with objects, and where.

mod json;
mod judge;
mod text;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use portcullis_sources::{Input, InputError, MAX_FILE, ObjectSet, Root, read_inputs, read_references};

use crate::cli::{Check, CheckOutput};

pub(crate) fn run(arguments: &Check) -> ExitCode {
    let objects = match read(arguments) {
        Ok(objects) => objects,
        Err(error) => return crate::fail(&error),
    };
    let report = judge::judge(&objects, now());
    let printed = crate::print(&match arguments.output {
        CheckOutput::Text => text::render(&report),
        CheckOutput::Json => json::render(&report),
    });
    if report.errors() == 0 { printed } else { ExitCode::FAILURE }
}

fn read(arguments: &Check) -> Result<ObjectSet, InputError> {
    let inputs: Result<Vec<Input>, _> = arguments.files.iter().chain(&arguments.directory).map(input).collect();
    let mut objects = read_inputs(&inputs?)?;
    if let Some(root) = &arguments.references_root {
        read_references(&mut objects, &Root::new(root));
    }
    Ok(objects)
}

fn input(path: &PathBuf) -> Result<Input, InputError> {
    if path != Path::new("-") {
        return Ok(Input::Path(path.clone()));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes);
    let read = read.and_then(|length| match u64::try_from(length) {
        Ok(length) if length <= MAX_FILE => Ok(()),
        _ => Err(io::Error::other("it is larger than 16 MiB")),
    });
    let name = "<stdin>";
    read.map_err(|source| InputError::Read { path: name.into(), source })?;
    Ok(Input::Text { name: name.to_owned(), bytes })
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
