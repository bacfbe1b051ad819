//! One table: the gateway, a bare Envoy, an Envoy with a Lua script, HAProxy and nginx, measured in turn on one machine.
//!
//! All proxies run at once with one thread each. In each round every one of them gets the same requests, beginning with
//! another one each time, so that all of them meet the machine's other work.

mod figures;
mod load;
mod subject;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_harness::rundir::RunDir;

use crate::error::BenchError;
use crate::fixture::Fixture;
use crate::{document, limits};
use figures::Row;
pub(crate) use load::Load;
pub(crate) use subject::Subject;
use table::Table;

/// Measures the gateway beside other proxies: CPU, instructions, answering times and memory.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Requests of a turn, over 20 connections with four streams each.
    #[arg(long, default_value_t = 1_000)]
    requests: u32,
    /// Rounds; in each every proxy has one turn.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Requests per second of the open loop.
    #[arg(long, value_delimiter = ',', default_value = "100,200,400")]
    rates: Vec<u32>,
    /// Seconds of each turn of the open loop, of which each proxy has two at each rate.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Watches that are opened on each proxy, 50 on a connection; memory is extrapolated to 10,000.
    #[arg(long, default_value_t = 2_000)]
    watches: usize,
    /// Requests under callgrind; 0 leaves instructions out.
    #[arg(long, default_value_t = 1_000)]
    counted: u32,
    /// Writes table, picture and the figures of README.md.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

const TURNS: u32 = 2;

pub(crate) fn run(options: &Compare) -> Result<(), BenchError> {
    limits::raise()?;
    let (run, counted) = match &options.dir {
        Some(dir) => (RunDir::at(&dir.join("timed"))?, RunDir::at(&dir.join("counted"))?),
        None => (RunDir::new("compare")?, RunDir::new("counted")?),
    };
    let mut rows: Vec<Row> = Subject::all().into_iter().map(Row::new).collect();
    measure(options, &run, &mut rows)?;
    if options.counted > 0 {
        let fixture = Fixture::new(&counted, true)?;
        for row in &mut rows {
            let Subject::Envoy(case) = row.subject else { continue };
            eprintln!("counting instructions: {}", row.subject.title());
            let rounds = fixture.measure(case, options.counted, 1)?;
            row.instructions = rounds.first().map(|round| round.total as f64 / f64::from(options.counted));
        }
    }
    let table = Table { rows: &rows, rates: &options.rates, watches: options.watches };
    let text = table.text();
    println!("{text}");
    if options.write {
        let picture = "![CPU time of a request by proxy](images/cpu-by-proxy.svg)";
        document::write("bench", &format!("{}.\n\n{text}\n\n{picture}", document::machine()))?;
        document::picture("cpu-by-proxy", &table.picture())?;
        document::write_front("bench", &table.front())?;
    }
    Ok(())
}

fn measure(options: &Compare, run: &RunDir, rows: &mut [Row]) -> Result<(), BenchError> {
    let fixture = Fixture::new(run, false)?;
    let mut loads = Vec::new();
    for row in rows.iter() {
        eprintln!("starting: {}", row.subject.title());
        loads.push(Load::start(row.subject.start(&fixture)?, &fixture)?);
    }
    // V8 goes on to compile while the first requests come.
    for round in 0..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for at in turn(round, rows.len()) {
            let (Some(row), Some(load)) = (rows.get_mut(at), loads.get(at)) else { continue };
            let burst = load.burst(options.requests)?;
            fixture.forget();
            if round > 0 {
                row.bursts.push(burst);
            }
        }
    }
    for rate in &options.rates {
        for round in 0..TURNS {
            eprintln!("open loop: {rate} a second");
            for at in turn(round, rows.len()) {
                let (Some(row), Some(load)) = (rows.get_mut(at), loads.get(at)) else { continue };
                row.timed(*rate, load.steady(f64::from(*rate), Duration::from_secs(options.seconds))?);
                fixture.forget();
            }
        }
    }
    for (row, load) in rows.iter_mut().zip(&loads) {
        eprintln!("watches: {}", row.subject.title());
        row.watch_bytes = load.watches(options.watches)?;
        fixture.forget();
    }
    Ok(())
}

/// The order of a round.
fn turn(round: u32, count: usize) -> impl Iterator<Item = usize> {
    let first = usize::try_from(round).unwrap_or(0) % count.max(1);
    (0..count).map(move |at| (at + first) % count)
}

#[cfg(test)]
mod tests {
    use super::turn;

    #[test]
    fn turn_begins_with_another_one_each_time() {
        assert_eq!(turn(1, 3).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turn(3, 3).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
