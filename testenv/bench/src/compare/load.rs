//! Clients of one proxy: as fast as it goes, at a steady rate, and watches.

use std::time::{Duration, Instant};

use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, Outcome, Protocol};

use super::figures::Burst;
use super::subject::Started;
use crate::case::Case;
use crate::error::BenchError;
use crate::fixture::Fixture;
use crate::pause::pause;
use crate::{client, usage};

const CONNECTIONS: u32 = 20;
const STREAMS: usize = 4;
/// Time for connections, before answering times count.
const SETTLES: Duration = Duration::from_secs(1);
const WATCHES_OF_A_CONNECTION: usize = 50;
const WATCH: &str = "/api/v1/pods?watch=true&resourceVersion=1";

/// The clients.
pub(crate) struct Load {
    proxy: Started,
    token: String,
    pool: ClientPool,
    clients: Vec<H2Client>,
    lane: LoadProfile,
}

impl Load {
    pub(crate) fn start(proxy: Started, fixture: &Fixture<'_>) -> Result<Self, BenchError> {
        let pool = ClientPool::new(2)?;
        let target = fixture.target(proxy.case, proxy.address);
        let clients = (0..CONNECTIONS).map(|_| pool.connect(&target)).collect::<Result<_, _>>()?;
        let token = fixture.token().to_owned();
        let mut lane = LoadProfile::new("client", &target, Protocol::Http2);
        for (name, value) in client::headers(proxy.case, "") {
            if name != "authorization" {
                lane = lane.header(name, value);
            }
        }
        lane = match proxy.case {
            // Others than those of the bursts.
            Case::Uncached => lane.new_tokens(&format!("{token}open")),
            case if case.uses_token() => lane.token(&token),
            _ => lane,
        };
        Ok(Load { proxy, token, pool, clients, lane })
    }

    /// Sends so many requests, as many at a time as there are streams.
    pub(crate) fn burst(&self, requests: u32) -> Result<Burst, BenchError> {
        // The gateway reviews so many unknown tokens at a time and no more.
        let (connections, streams) =
            if self.proxy.case == Case::Uncached { (CONNECTIONS.min(8), 1) } else { (CONNECTIONS, STREAMS) };
        let of_each = requests / connections;
        let (start, before) = (Instant::now(), self.spent()?);
        std::thread::scope(|scope| {
            let send = |client| client::burst(client, self.proxy.case, &self.token, of_each, streams);
            let clients = self.clients.iter().take(connections as usize);
            let threads: Vec<_> = clients.map(|client| scope.spawn(move || send(client))).collect();
            // A panic of a client was printed already.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Result<(), _>>()
        })?;
        let took = start.elapsed();
        let spent = self.spent()?.zip(before).map(|(after, before)| after.saturating_sub(before));
        let count = f64::from(of_each * connections);
        Ok(Burst { micros: spent.map(|nanos| nanos as f64 / count / 1_000.0), per_second: count / took.as_secs_f64() })
    }

    /// Sends so many requests a second, whatever the answers take.
    pub(crate) fn steady(&self, rate: f64, length: Duration) -> Result<Outcome, BenchError> {
        let paths: Vec<String> = (0..64).map(client::path).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let lanes: Vec<LoadProfile> = (0..CONNECTIONS).map(|_| self.lane.clone()).collect();
        let load = self.pool.steady(&lanes, &paths, rate)?;
        pause(SETTLES);
        load.take();
        pause(length);
        let outcome = load.take();
        load.stop()?;
        if let Some(failure) = outcome.failures.first() {
            eprintln!("{} of {} failed, the first: {}", outcome.failed, outcome.sent, failure.reason);
        }
        Ok(outcome)
    }

    /// Opens watches and gives the memory of each, in bytes.
    pub(crate) fn watches(&self, count: usize) -> Result<Option<f64>, BenchError> {
        let Some(pid) = self.proxy.pid.filter(|_| count > 0) else { return Ok(None) };
        let before = usage::of(pid)?.now;
        let lanes = count.div_ceil(WATCHES_OF_A_CONNECTION);
        let lanes: Vec<_> = (0..lanes).map(|_| (self.lane.clone(), WATCHES_OF_A_CONNECTION)).collect();
        let watches = match self.pool.watches(&lanes, WATCH) {
            Ok(watches) => watches,
            Err(error) => {
                eprintln!("no watches: {error}");
                return Ok(None);
            }
        };
        let after = usage::of(pid)?.now;
        let bytes = after.saturating_sub(before) as f64 * 1_024.0 / watches.len() as f64;
        Ok(Some(bytes))
    }

    fn spent(&self) -> Result<Option<u64>, BenchError> {
        self.proxy.pid.map(usage::process_time).transpose()
    }
}
