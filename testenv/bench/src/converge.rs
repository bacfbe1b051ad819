//! Thousands of clients, and the connections that servers see of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, Outgoing, Protocol};
use portcullis_harness::rundir::RunDir;
use serde_json::{Map, Value, json};

use crate::error::BenchError;
use crate::pause::pause;
use crate::site::{Mode, NAME, OBJECTS, Site, WATCH};
use crate::{document, limits, usage};

/// Opens a watch for each of many clients, lets them read, and counts the connections of each server.
#[derive(Debug, Args)]
pub(crate) struct Converge {
    /// Clients, each with a connection, a credential and a watch of its own.
    #[arg(long, default_value_t = 2_000)]
    clients: usize,
    /// Reads per second of all clients.
    #[arg(long, default_value_t = 200.0)]
    reads: f64,
    /// How long they read.
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// Envoy's worker threads.
    #[arg(long, default_value_t = 4)]
    workers: u32,
    /// Writes the table into docs.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Ways to authenticate, and how servers learn of it.
const CASES: [(&str, Mode, bool); 5] = [
    ("`Impersonate`, certificates", Mode::Impersonate, false),
    ("`Impersonate`, tokens", Mode::Impersonate, true),
    ("`RequestHeader`, certificates", Mode::RequestHeader, false),
    ("`RequestHeader`, tokens", Mode::RequestHeader, true),
    ("`RequestHeader`, tokens, `tokenReview: false`", Mode::Unreviewed, true),
];

/// Unknown tokens that are presented at a time.
const REVIEWS: usize = 8;

pub(crate) fn run(options: &Converge) -> Result<(), BenchError> {
    limits::raise()?;
    let mut text = String::from(
        "| | clients' connections | connections of each server | reads not answered with 200 | Envoy's memory, for each client |\n|---|---|---|---|---|\n",
    );
    for (at, (title, mode, by_token)) in CASES.into_iter().enumerate() {
        eprintln!("measuring {title}");
        let run = match &options.dir {
            Some(dir) => RunDir::at(&dir.join(format!("{at}")))?,
            None => RunDir::new("converge")?,
        };
        let row = measure(&run, options, mode, by_token)?;
        text += &format!("| {title} | {row} |\n");
    }
    println!("{text}");
    if options.write {
        document::write("converge", &format!("{}.\n\n{text}", document::machine()))?;
    }
    Ok(())
}

fn measure(run: &RunDir, options: &Converge, mode: Mode, by_token: bool) -> Result<String, BenchError> {
    let users: Vec<String> = (0..options.clients).map(|number| format!("user-{number}")).collect();
    let tokens: Map<String, Value> = users.iter().map(|user| (token(user), json!({"user": user}))).collect();
    let site = Site::start(run, options.workers, &Value::Object(tokens))?;
    site.gateway.apply(&site.manifest(mode)?)?;
    let stranger = site.gateway.target(NAME).timeout(Duration::from_secs(30));
    if by_token && mode != Mode::Unreviewed {
        // The gateway reviews so many unknown tokens at a time and no more.
        present(&H2Client::connect(&stranger)?, &users)?;
    }
    let mut lanes = Vec::new();
    for user in &users {
        let lane = if by_token {
            LoadProfile::new(user, &stranger, Protocol::Http2).token(&token(user))
        } else {
            let target = site.target(&site.user(user)?).timeout(Duration::from_secs(30));
            LoadProfile::new(user, &target, Protocol::Http2)
        };
        lanes.push((lane, 1));
    }
    let envoy = site.gateway.envoy().process().pid();
    let before = usage::of(envoy)?.now;
    let watches = ClientPool::new(2)?.watches(&lanes, WATCH)?;
    let path = format!("{OBJECTS}config");
    let load = watches.steady(&[path.as_str()], options.reads)?;
    let mut most = vec![0; site.servers.len()];
    for _ in 0..options.seconds {
        pause(Duration::from_secs(1));
        for (server, most) in site.servers.iter().zip(&mut most) {
            *most = connections_to(server.address)?.max(*most);
        }
    }
    let outcome = load.stop()?;
    if let Some(failure) = outcome.failures.first() {
        eprintln!("{failure:?}");
    }
    let kib = usage::of(envoy)?.now.saturating_sub(before) as f64 / options.clients as f64;
    let of_servers: Vec<String> = most.iter().map(ToString::to_string).collect();
    let clients = connections_to(site.gateway.address())?;
    Ok(format!("{clients} | {} | {} of {} | {kib:.0} KiB", of_servers.join(", "), outcome.failed, outcome.sent))
}

fn token(user: &str) -> String {
    format!("the-token-of-{user}")
}

fn present(client: &H2Client, users: &[String]) -> Result<(), BenchError> {
    let request = |user: &String| {
        let bearer = format!("Bearer {}", token(user));
        Outgoing::get(&format!("{OBJECTS}config"), &[("authorization", bearer.as_str())])
    };
    for answer in client.burst(users.iter().map(request).collect(), REVIEWS) {
        let (answer, wanted) = (answer?, 200);
        if answer.status != wanted {
            return Err(BenchError::Answer { found: answer.status, wanted, body: answer.text() });
        }
    }
    Ok(())
}

/// The established connections to an address, as the kernel lists them: their clients' ends.
fn connections_to(address: SocketAddr) -> Result<usize, BenchError> {
    let path = "/proc/net/tcp".to_owned();
    let table = std::fs::read_to_string(&path).map_err(|source| BenchError::Read { path, source })?;
    Ok(count(&table, address.port()))
}

fn count(table: &str, port: u16) -> usize {
    let end = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|remote| remote.ends_with(&end)) && fields.next() == Some("01")
    };
    table.lines().filter(is_one).count()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn connection_counts_once_and_when_established() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:1F90 00000000:0000 0A 0\n\
            1: 0100007F:C000 0100007F:1F90 01 0\n\
            2: 0100007F:1F90 0100007F:C000 01 0\n\
            3: 0100007F:C001 0100007F:1F90 06 0\n";
        assert_eq!(count(table, 8_080), 1);
    }
}
