//! Clients of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use portcullis_harness::client::{ClientPool, LoadProfile, OpenLoopLoad, Outcome, Protocol, TlsTarget, Watchers};

use crate::error::BenchError;
use crate::pause::pause;
use crate::site::{LIST, NAME, OBJECTS, Site};

/// A watch that its server ends after a minute, as kube-apiserver does after some minutes.
const WATCH: &str = "/api/v1/namespaces/default/pods?watch=true&resourceVersion=1&timeoutSeconds=60";
/// Refused by a policy.
const FORBIDDEN: &str = "/api/v1/namespaces/default/secrets";
const CLIENTS: usize = 10;
/// The time between two sessions.
const SESSIONS: Duration = Duration::from_millis(250);

/// Answers since the last sample.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reads: Outcome,
    pub(crate) lists: Outcome,
    pub(crate) refused: Outcome,
    pub(crate) sessions: u64,
    pub(crate) sessions_failed: u64,
    /// Watches that were cut, and that the server ended.
    pub(crate) watches_cut: usize,
}

/// Running clients.
pub(crate) struct Traffic {
    reads: OpenLoopLoad,
    lists: OpenLoopLoad,
    refused: OpenLoopLoad,
    watchers: Watchers,
    sessions: Arc<Sessions>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Sessions {
    over: AtomicBool,
    good: AtomicU64,
    failed: AtomicU64,
}

impl Traffic {
    pub(crate) fn start(site: &Site, reads: f64, watches: usize) -> Result<Self, BenchError> {
        let pool = ClientPool::new(2)?;
        let alice = site.user("alice")?;
        let target = site.target(&alice).timeout(Duration::from_secs(10));
        let lanes = |count: usize, name: &str| -> Vec<LoadProfile> {
            (0..count).map(|number| LoadProfile::new(format!("{name}-{number}"), &target, Protocol::Http2)).collect()
        };
        let objects: Vec<String> = (0..64).map(|number| format!("{OBJECTS}config-{number}")).collect();
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        // One kind has no right to it, the other no known user.
        let stranger = site.gateway.target(NAME).timeout(Duration::from_secs(10));
        let stranger = LoadProfile::new("stranger", &stranger, Protocol::Http2).token("unknown");
        let mut refused = lanes(1, "refused");
        refused.push(stranger);
        let sessions = Arc::<Sessions>::default();
        let thread = std::thread::spawn({
            let (target, sessions) = (target.clone().alpn(&["http/1.1"]), Arc::clone(&sessions));
            move || hold(&target, &sessions)
        });
        Ok(Traffic {
            reads: pool.steady(&lanes(CLIENTS, "reads"), &objects, reads)?,
            lists: pool.steady(&lanes(2, "lists"), &[LIST], reads / 20.0)?,
            refused: pool.steady(&refused, &[FORBIDDEN], reads / 10.0)?,
            watchers: pool.follow(&lanes(watches, "watch"), WATCH)?,
            sessions,
            thread: Some(thread),
        })
    }

    /// The answers since the last call.
    pub(crate) fn take(&self) -> Seen {
        Seen {
            reads: self.reads.take(),
            lists: self.lists.take(),
            refused: self.refused.take(),
            sessions: self.sessions.good.swap(0, Ordering::AcqRel),
            sessions_failed: self.sessions.failed.swap(0, Ordering::AcqRel),
            watches_cut: self.watchers.ends().iter().filter(|end| end.broken.is_some()).count(),
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.sessions.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed already.
            let _ = thread.join();
        }
    }
}

/// One session after the other: an upgrade, an echo, the end.
fn hold(target: &TlsTarget, sessions: &Sessions) {
    while !sessions.over.load(Ordering::Acquire) {
        let count = if session(target).is_ok() { &sessions.good } else { &sessions.failed };
        count.fetch_add(1, Ordering::AcqRel);
        pause(SESSIONS);
    }
}

fn session(target: &TlsTarget) -> Result<(), BenchError> {
    let mut connection = target.connect()?;
    let path = "/api/v1/namespaces/default/pods/web-0/exec?command=sh";
    connection.write(
        format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n").as_bytes(),
    )?;
    let head = connection.read_head()?;
    let (found, wanted) = (head.status, 101);
    if found != wanted {
        return Err(BenchError::Answer { found, wanted, body: head.text() });
    }
    connection.write(b"hello")?;
    connection.read_exact(5)?;
    Ok(())
}
