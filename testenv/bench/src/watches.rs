//! Memory of idle watches on one gateway, beside a bare Envoy's.

use std::path::PathBuf;

use clap::Args;
use portcullis_harness::rundir::RunDir;

use crate::case::Case;
use crate::compare::{Load, Subject};
use crate::error::BenchError;
use crate::fixture::Fixture;
use crate::{document, limits};

/// Opens idle watches on a bare Envoy and on the gateway, one after the other, and reads their memory.
#[derive(Debug, Args)]
pub(crate) struct Watches {
    /// How many, 50 on a connection.
    #[arg(long, default_value_t = 10_000)]
    watches: usize,
    /// Writes the table into docs.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

const CASES: [Case; 5] = [Case::Bare, Case::Lua, Case::Last, Case::FrontProxy, Case::WasmLast];

pub(crate) fn run(options: &Watches) -> Result<(), BenchError> {
    limits::raise()?;
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("watches")?,
    };
    let fixture = Fixture::new(&run, false)?;
    let mut text = format!(
        "| {} idle watches | memory | of each | more than a bare Envoy's |\n|---|---|---|---|\n",
        options.watches
    );
    let mut bare = None;
    for case in CASES {
        let subject = Subject::Envoy(case);
        eprintln!("measuring {}", subject.title());
        let load = Load::start(subject.start(&fixture)?, &fixture)?;
        let bytes = load.watches(options.watches)?.unwrap_or(f64::NAN);
        let bare = *bare.get_or_insert(bytes);
        text += &format!(
            "| {} | {:.0} MiB | {:.1} KiB | {:+.1} KiB |\n",
            subject.title(),
            bytes * options.watches as f64 / 1_048_576.0,
            bytes / 1_024.0,
            (bytes - bare) / 1_024.0,
        );
        fixture.forget();
    }
    println!("{text}");
    if options.write {
        document::write("watches", &format!("{}.\n\n{text}", document::machine()))?;
    }
    Ok(())
}
