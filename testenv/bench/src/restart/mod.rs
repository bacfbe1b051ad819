//! A server that dies and comes back: each server's share of requests over time, through a layer-4 load balancer and
//! through the gateway.

mod timeline;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use portcullis_e2e::allow_all;
use portcullis_harness::client::{ClientPool, LoadProfile, Protocol, TlsTarget};
use portcullis_harness::rundir::RunDir;
use serde_json::json;

use crate::error::BenchError;
use crate::pause::pause;
use crate::peers;
use crate::site::{Mode, OBJECTS, Site};
use crate::{document, usage};
use timeline::{Sample, Timeline};

/// Restarts one of three servers under the load of HTTP/2 clients, behind HAProxy on layer 4 and behind the gateway.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Clients, each with one connection.
    #[arg(long, default_value_t = 50)]
    clients: usize,
    /// Requests per second of all clients.
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// How long each way is measured.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Writes figures and picture into docs.
    #[arg(long)]
    write: bool,
    /// Directory of configurations and logs, emptied at the start. A temporary directory if unset.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The second in which the first server dies, and the one in which it is back.
const DIES: u32 = 10;
const BACK: u32 = 15;

pub(crate) fn run(options: &Restart) -> Result<(), BenchError> {
    let run = match &options.dir {
        Some(dir) => RunDir::at(dir)?,
        None => RunDir::new("restart")?,
    };
    let mut site = Site::start(&run, 2, &json!({}))?;
    let alice = site.user("alice")?;
    let addresses: Vec<_> = site.servers.iter().map(|server| server.address).collect();
    let balancer = peers::layer4(run.path(), &addresses)?;
    let layer4 = TlsTarget::new(balancer.address).sni("kubernetes").trust(&site.trusts.server).identity(&alice);
    let gateway = site.target(&alice);
    let mut timelines = Vec::new();
    let ways = [
        ("HAProxy on layer 4", &layer4, None),
        ("Portcullis, `RoundRobin` (the default)", &gateway, Some("RoundRobin")),
        ("Portcullis, `LeastRequest`", &gateway, Some("LeastRequest")),
    ];
    for (title, target, strategy) in ways {
        eprintln!("measuring {title}");
        if let Some(strategy) = strategy {
            let policies = json!([{"rules": [allow_all()], "strategy": strategy}]);
            site.gateway.apply(&site.manifest(Mode::Impersonate)?.policies(policies))?;
        }
        timelines.push(measure(title, target, &mut site, options)?);
    }
    let text = timeline::text(&timelines, f64::from(DIES), f64::from(BACK));
    println!("{text}");
    if options.write {
        let picture = "![Shares of three servers, of which one restarts](images/restart.svg)";
        document::write("restart", &format!("{}.\n\n{text}\n\n{picture}", document::machine()))?;
        document::picture("restart", &timeline::picture(&timelines, f64::from(DIES), f64::from(BACK)))?;
    }
    Ok(())
}

fn measure(title: &str, target: &TlsTarget, site: &mut Site, options: &Restart) -> Result<Timeline, BenchError> {
    let pool = ClientPool::new(2)?;
    let target = target.clone().timeout(Duration::from_secs(5));
    let lane = |number| LoadProfile::new(format!("client-{number}"), &target, Protocol::Http2);
    let lanes: Vec<LoadProfile> = (0..options.clients).map(lane).collect();
    let path = format!("{OBJECTS}config");
    let load = pool.steady(&lanes, &[path.as_str()], options.rate)?;
    let start = Instant::now();
    let mut timeline = Timeline::new(title);
    let mut spent = times(site);
    for second in 1..=options.seconds {
        pause((start + Duration::from_secs(second.into())).saturating_duration_since(Instant::now()));
        let outcome = load.take();
        let now = times(site);
        let share = |at: usize| now.get(at).zip(spent.get(at)).map_or(0, |(now, before)| now.saturating_sub(*before));
        let requests = |name: &str| outcome.servers.get(name).copied().unwrap_or_default();
        timeline.samples.push(Sample {
            second: f64::from(second),
            requests: site.servers.iter().map(|server| requests(&server.name)).collect(),
            nanos: (0..site.servers.len()).map(share).collect(),
            failed: outcome.failed,
        });
        match (second, site.servers.first_mut()) {
            (DIES, Some(server)) => server.kill(),
            (BACK, Some(server)) => server.start_again()?,
            _ => {}
        }
        spent = times(site);
    }
    load.stop()?;
    site.servers.iter().try_for_each(|server| server.forget())?;
    Ok(timeline)
}

/// CPU time of each server; none of one that is down.
fn times(site: &Site) -> Vec<u64> {
    site.servers.iter().map(|server| usage::process_time(server.pid()).unwrap_or_default()).collect()
}
