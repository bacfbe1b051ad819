//! The channel by which an agent talks to the filter, for tests that run Envoy without an agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};

/// The variable by which the filter knows that its Envoy has an agent.
pub(super) const VARIABLE: &str = "PORTCULLIS_AGENT";
/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The agent's end of the channel.
#[derive(Debug)]
pub struct FilterChannel(Mutex<Channel>);

#[derive(Debug)]
struct Channel {
    answers: BufReader<UnixStream>,
    last: u64,
}

impl FilterChannel {
    /// A channel, and the end that becomes Envoy's standard input.
    pub(super) fn new() -> Result<(Self, UnixStream)> {
        let failed = Error::connection("making a channel to", "the filter");
        let pair = || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_read_timeout(Some(PATIENCE))?;
            Ok((ours, theirs))
        };
        let (ours, theirs) = pair().map_err(failed)?;
        Ok((Self(Mutex::new(Channel { answers: BufReader::new(ours), last: 0 })), theirs))
    }

    /// The page of activity. Waits for the filter to be loaded.
    ///
    /// # Errors
    /// [`Error::Connection`] without an answer, [`Error::Json`] where it is no page.
    pub fn activity(&self) -> Result<Value> {
        let page = self.0.lock().unwrap_or_else(PoisonError::into_inner).ask();
        let page = page.map_err(Error::connection("asking for the activity of", "the filter"))?;
        serde_json::from_slice(&page).map_err(|source| Error::Json { what: "the activity".to_owned(), source })
    }
}

impl Channel {
    fn ask(&mut self) -> std::io::Result<Vec<u8>> {
        self.last += 1;
        self.answers.get_mut().write_all(format!("activity {}\n", self.last).as_bytes())?;
        let head = format!("activity {} ", self.last);
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            // The other line says that the filter answers.
            if let Some(length) = line.strip_prefix(&head) {
                let mut page = vec![0; length.trim().parse().map_err(std::io::Error::other)?];
                self.answers.read_exact(&mut page)?;
                return Ok(page);
            }
        }
    }
}
