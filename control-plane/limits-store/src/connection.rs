//! One connection to one server, and what is asked there.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use portcullis_limits::RESERVED_FOR;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};

use crate::address::StoreAddress;
use crate::client::{StoreFiles, client};
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::scripts::{CLAIM, ENTER, LOAD, SAVE};

/// The time for a connection, and that for an answer. A gateway's lease is longer than both.
const CONNECT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(1);
/// The time after which the store forgets the number of a process's report.
const CLAIMED_MILLISECONDS: u64 = 60_000;
/// The longest time for which a control plane that was too late has the next turn.
const LONGEST_TURN: Duration = Duration::from_millis(500);

/// A connection to one server. It ends with the server's role and with its process.
pub(crate) struct StoreConnection {
    server: MultiplexedConnection,
    /// The process. Of that which another one wrote a part may be lost.
    run_id: String,
    generation_key: String,
}

/// A cluster's limits as they are stored.
pub(crate) struct Stored {
    /// Another one with each write; empty for none.
    pub(crate) token: String,
    /// `None` if they are of another process, or of another time of this one's clock.
    pub(crate) state: Option<Vec<u8>>,
}

/// Stored limits, and what they may be written back by.
pub(crate) struct Loaded {
    pub(crate) time: Duration,
    /// The time that reading took.
    pub(crate) took: Duration,
    pub(crate) origin: String,
    pub(crate) all: Vec<Stored>,
}

impl StoreConnection {
    /// Connects to the server, or to the master that the sentinels name.
    pub(crate) async fn open(
        address: &StoreAddress,
        files: &StoreFiles,
        prefix: &str,
        clock: &mut StoreClock,
    ) -> Result<Self, StoreError> {
        let client = client(address, files).await?;
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(Some(ANSWER));
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut server = connected.map_err(StoreError::Connect)?;
        let info: String = redis::cmd("INFO").query_async(&mut server).await.map_err(StoreError::Connect)?;
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        if of("role:") != "master" {
            return Err(StoreError::NotMaster);
        }
        let run_id = of("run_id:").to_owned();
        if run_id.is_empty() {
            return Err(StoreError::NoRunId);
        }
        let generation_key = format!("{prefix}:generation");
        let comes_from_another = clock.enter(&run_id);
        let mut enter = ENTER.key(format!("{prefix}:server"));
        enter.key(&generation_key).arg(&run_id).arg(u8::from(comes_from_another)).arg(random());
        enter.invoke_async::<()>(&mut server).await.map_err(StoreError::Save)?;
        clock.has_entered();
        Ok(Self { server, run_id, generation_key })
    }

    /// Whether each report, a number of a process, is the newest one that any control plane has taken.
    pub(crate) async fn claim(&mut self, reports: &[(String, u64)]) -> Result<Vec<bool>, StoreError> {
        let mut claim = CLAIM.prepare_invoke();
        claim.arg(CLAIMED_MILLISECONDS);
        for (key, number) in reports {
            claim.key(key).arg(*number);
        }
        claim.invoke_async(&mut self.server).await.map_err(StoreError::Save)
    }

    /// Reads limits with the store's time. If its clock was set, nothing that was written before is read any more.
    pub(crate) async fn load(&mut self, keys: &[String], clock: &mut StoreClock) -> Result<Loaded, StoreError> {
        let mut load = LOAD.key(&self.generation_key);
        keys.iter().for_each(|key| _ = load.key(key));
        let asked = Instant::now();
        let answer: Vec<Vec<u8>> = load.invoke_async(&mut self.server).await.map_err(StoreError::Load)?;
        let had = Instant::now();
        let unreadable = || StoreError::Load(RedisError::from((redis::ErrorKind::UnexpectedReturnType, "no time")));
        let text = |at: usize| answer.get(at).and_then(|value| std::str::from_utf8(value).ok());
        let number = |at: usize| text(at).and_then(|text| text.parse::<u64>().ok()).ok_or_else(unreadable);
        let time = Duration::from_secs(number(0)?).saturating_add(Duration::from_micros(number(1)?));
        let generation = match clock.has_stepped(asked, had, time) {
            true => self.next_generation().await?,
            false => text(2).unwrap_or_default().to_owned(),
        };
        let origin = format!("{}.{generation}", self.run_id);
        let values = answer.get(3..).unwrap_or_default();
        let stored = values.as_chunks::<3>().0.iter().map(|[token, by, state]| Stored {
            token: String::from_utf8_lossy(token).into_owned(),
            state: (by == origin.as_bytes()).then(|| state.clone()),
        });
        Ok(Loaded { time, took: had.saturating_duration_since(asked), all: stored.collect(), origin })
    }

    async fn next_generation(&mut self) -> Result<String, StoreError> {
        let generation = random();
        let mut set = redis::cmd("SET");
        set.arg(&self.generation_key).arg(&generation);
        set.query_async::<()>(&mut self.server).await.map_err(StoreError::Save)?;
        Ok(generation)
    }

    /// Writes limits back, each if nothing has changed it since they were loaded, and it is no other control plane's turn.
    pub(crate) async fn save(
        &mut self,
        loaded: &Loaded,
        writer: &str,
        all: &[StateWrite],
    ) -> Result<Vec<Saved>, StoreError> {
        let mut save = SAVE.prepare_invoke();
        let lifetime = u64::try_from(RESERVED_FOR.as_millis()).unwrap_or(u64::MAX);
        save.arg(lifetime).arg(turn(loaded.took)).arg(&loaded.origin).arg(writer);
        for change in all {
            save.key(&change.key).key(format!("{}:turn", change.key));
            save.arg(&change.before).arg(&change.after).arg(change.state.as_slice());
        }
        let saved: Vec<u8> = save.invoke_async(&mut self.server).await.map_err(StoreError::Save)?;
        Ok(saved.into_iter().map(Saved::from).collect())
    }
}

/// The milliseconds of a turn: twice the time from one write to the next, which is two answers. A control plane that is further away
/// would keep others waiting for a turn that it cannot take.
fn turn(answer: Duration) -> u64 {
    let milliseconds = answer.saturating_mul(4).as_millis().saturating_add(20);
    u64::try_from(milliseconds).ok().filter(|_| milliseconds <= LONGEST_TURN.as_millis()).unwrap_or(0)
}

/// The end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    Written,
    /// Another control plane was faster. This one has the next turn.
    TooLate,
    /// Another control plane has the next turn.
    OthersTurn,
}

impl From<u8> for Saved {
    fn from(code: u8) -> Self {
        match code {
            1 => Self::Written,
            0 => Self::TooLate,
            _ => Self::OthersTurn,
        }
    }
}

/// A word that no other control plane has, nor this one at another time.
pub(crate) fn random() -> String {
    format!("{:x}", RandomState::new().build_hasher().finish())
}

/// Limits to be written.
pub(crate) struct StateWrite {
    pub(crate) key: String,
    /// The token that was read, and the one that is written.
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) state: Vec<u8>,
}
