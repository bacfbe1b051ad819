//! Serves pages at a port that any client may reach. `serve` and `agent` share it, because a kubelet probes both: a client that
//! blocks the port could have them restarted.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Most connections at a time. Far below what would leave a program without a file descriptor.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(5);
/// How long a connection takes requests, whatever happens on it.
const LIFE: Duration = Duration::from_secs(60);
/// How long the last answer may take.
const FAREWELL: Duration = Duration::from_secs(30);
/// How long to wait after a connection could not be accepted, as when there is no file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves pages until it is dropped. Clients that send nothing, or read nothing, block no other client for long, and however
/// many of them connect, a new client gets in.
pub(crate) async fn serve(listener: TcpListener, pages: Router) {
    let mut guests = Guests::default();
    let mut conversations = JoinSet::new();
    loop {
        let (stream, source) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while conversations.try_join_next().is_some() {}
        let task = conversations.spawn(converse(stream, pages.clone()));
        if let Some(leaves) = guests.enter(source.ip().to_canonical(), task, AbortHandle::is_finished) {
            leaves.abort();
        }
    }
}

async fn converse(stream: TcpStream, pages: Router) {
    let service = TowerToHyperService::new(pages);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // How it ends is the client's affair.
    if tokio::time::timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(FAREWELL, connection).await;
    }
}

/// Open connections, in the order of their arrival. `T` ends a connection.
#[derive(Debug)]
struct Guests<T>(VecDeque<(IpAddr, T)>);

impl<T> Default for Guests<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Guests<T> {
    /// Adds a connection. Returns the connection to close for it: the oldest of the source that has most.
    fn enter(&mut self, source: IpAddr, connection: T, is_over: impl Fn(&T) -> bool) -> Option<T> {
        self.0.retain(|(_, guest)| !is_over(guest));
        let leaves = if self.0.len() < MAX_CONNECTIONS { None } else { self.oldest_of_most() };
        let leaves = leaves.and_then(|place| self.0.remove(place));
        self.0.push_back((source, connection));
        leaves.map(|(_, guest)| guest)
    }

    fn oldest_of_most(&self) -> Option<usize> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.0.iter().for_each(|(source, _)| *counts.entry(*source).or_default() += 1);
        // Of equals the last one is found, so the oldest has to come last.
        let newest_first = self.0.iter().enumerate().rev();
        newest_first.max_by_key(|(_, (source, _))| counts.get(source)).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_newcomer_gets_in_and_whoever_has_most_makes_room() {
        let mut guests = Guests::default();
        assert_eq!(guests.enter(address(1), 0, |_| false), None);
        for number in 1..MAX_CONNECTIONS {
            assert_eq!(guests.enter(address(2), number, |_| false), None);
        }
        assert_eq!(guests.enter(address(2), 1_000, |_| false), Some(1), "the oldest of its own");
        assert_eq!(guests.enter(address(3), 1_001, |_| false), Some(2));
        assert_eq!(guests.enter(address(3), 1_002, |guest| *guest == 3), None, "who has left makes room, too");
        assert_eq!(guests.0.len(), MAX_CONNECTIONS);
        assert!(guests.0.contains(&(address(1), 0)), "a probe is not kept out by a flood");
    }

    #[test]
    fn of_many_who_have_as_many_the_oldest_goes() {
        let mut guests = Guests::default();
        for number in 0..MAX_CONNECTIONS {
            let source = u32::try_from(number).unwrap();
            guests.enter(std::net::Ipv4Addr::from_bits(source).into(), number, |_| false);
        }
        assert_eq!(guests.enter(address(1), 1_000, |_| false), Some(0));
        assert_eq!(guests.enter(address(1), 1_001, |_| false), Some(1));
        assert_eq!(guests.enter(address(2), 1_002, |_| false), Some(1_000), "of whom there are two");
    }
}
