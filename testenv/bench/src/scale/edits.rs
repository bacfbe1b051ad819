//! One edit at a time, and when it arrives.

use std::time::{Duration, Instant};

use portcullis_harness::client::H2Client;

use super::fixture::{Fixture, POD};
use crate::error::BenchError;

impl Fixture {
    /// Takes a permission away by one edit of a cluster's file and gives it back by another: until Envoy has acknowledged
    /// it, until a request is answered by it.
    pub(crate) fn edit_policy(&mut self, number: u32) -> Result<[(Duration, Duration); 2], BenchError> {
        let client = self.connect(number)?;
        let text = self.parts.manifest(number, false).to_text();
        let taken = self.time(number, &text, || status(&client) == Some(403))?;
        let text = self.parts.manifest(number, true).to_text();
        let given = self.time(number, &text, || status(&client) == Some(200))?;
        Ok([taken, given])
    }

    /// Adds a cluster: until Envoy has acknowledged it, until a request to it is answered.
    pub(crate) fn add_cluster(&mut self, number: u32) -> Result<(Duration, Duration), BenchError> {
        let text = self.parts.manifest(number, true).to_text();
        let target = self.target(number).timeout(Duration::from_secs(1));
        self.time(number, &text, || H2Client::connect(&target).is_ok_and(|client| status(&client) == Some(200)))
    }

    /// Writes the file: until Envoy has acknowledged it, until it is seen. The log is followed on a thread of its own meanwhile.
    fn time(
        &mut self,
        number: u32,
        text: &str,
        is_seen: impl FnMut() -> bool,
    ) -> Result<(Duration, Duration), BenchError> {
        self.log.skip()?;
        let start = Instant::now();
        self.write(number, text)?;
        let (log, patience) = (&mut self.log, self.patience);
        std::thread::scope(|scope| {
            let acked = scope.spawn(move || log.line_with("in sync", patience).map(|_| start.elapsed()));
            let seen = until(start, patience, is_seen)?;
            let acked = acked.join().map_err(|_| BenchError::Silent { text: "in sync" })??;
            Ok((acked, seen))
        })
    }
}

fn status(client: &H2Client) -> Option<u16> {
    client.get(POD, &[]).ok().map(|answer| answer.status)
}

fn until(start: Instant, patience: Duration, mut holds: impl FnMut() -> bool) -> Result<Duration, BenchError> {
    loop {
        if holds() {
            return Ok(start.elapsed());
        }
        if start.elapsed() > patience {
            return Err(BenchError::Unseen);
        }
    }
}
