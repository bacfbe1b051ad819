use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use portcullis_api::{DiscoveredServer, Endpoint, ServerHost, SlicePort, is_allowed_server};
use portcullis_sources::Backoff;
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time::timeout;

use super::connection::{AnswerLines, UpstreamError, get, tls_of};
use super::report::{Reporter, SourceReport};
use super::slices::{SliceServers, servers_of};
use super::want::UpstreamAccess;

const SLICES: &str =
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?fieldSelector=metadata.name%3Dkubernetes";
/// The slice that kube-apiserver writes.
const NAME: &str = "kubernetes";
/// How long a watch lives, seconds. Then the slice is listed again, perhaps at another server.
const WATCH_SECONDS: u64 = 60;
/// How long a server has to be followed before pauses begin anew: one that ends every watch at once is not asked without them.
const STEADY: Duration = Duration::from_secs(5);
/// How long a round without an answer goes on in silence: longer than a server that is not there takes.
const SILENCE: Duration = Duration::from_secs(8);
/// When a watch that neither speaks nor ends is dead.
const WATCH: Duration = Duration::from_secs(WATCH_SECONDS + 5);
/// Most discovered servers that are asked when no written one answers.
const MAX_ASKED: usize = 8;
/// Most events of a watch, and most bytes: the slice changes when a kube-apiserver comes or goes. A server that says more is
/// asked for lists, with pauses.
const MAX_EVENTS: usize = 256;
const MAX_WATCHED: usize = 4 << 20;
/// Longest resource version: etcd's are numbers.
const MAX_VERSION: usize = 64;

#[derive(Deserialize)]
struct SliceList {
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<EndpointSlice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Deserialize)]
struct SliceEvent {
    r#type: String,
    object: serde_json::Value,
}

/// Follows the slice until the task ends. Each written server is tried, then those that were found last.
pub(super) async fn follow(access: UpstreamAccess, allow_loopback: bool, last: Vec<DiscoveredServer>, to: Reporter) {
    let tls = match tls_of(&access) {
        Ok(tls) => tls,
        Err(error) => {
            to.failed(error.to_string()).await;
            return std::future::pending().await;
        }
    };
    let mut session = UpstreamSession { access, allow_loopback, tls, last, to };
    let mut backoff = Backoff::default();
    loop {
        let (round, mut why, mut is_reported) = (Instant::now(), None, false);
        for (number, server) in session.asked().into_iter().enumerate() {
            let since = Instant::now();
            if !is_reported
                && (number >= MAX_ASKED || round.elapsed() >= SILENCE)
                && let Some(why) = why.clone()
            {
                is_reported = true;
                session.to.failed(why).await;
            }
            match session.run(&server).await {
                // The watch has lived its time, or was ended with the server.
                Ok(Followed { is_noisy }) => {
                    why = None;
                    if since.elapsed() >= STEADY && !is_noisy {
                        backoff.reset();
                    }
                    break;
                }
                Err(error) => why = why.or(Some(error.to_string())),
            }
        }
        if let Some(why) = why {
            session.to.failed(why).await;
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// A list, and perhaps a watch after it.
struct Followed {
    /// Whether the watch said more than any of the slice can.
    is_noisy: bool,
}

/// The events of a watch, whatever they say.
#[derive(Default)]
struct SeenEvents {
    number: usize,
    bytes: usize,
}

impl SeenEvents {
    fn count(&mut self, bytes: usize) -> Result<(), UpstreamError> {
        (self.number, self.bytes) = (self.number.saturating_add(1), self.bytes.saturating_add(bytes));
        if self.number > MAX_EVENTS || self.bytes > MAX_WATCHED { Err(UpstreamError::Noise) } else { Ok(()) }
    }
}

struct UpstreamSession {
    access: UpstreamAccess,
    allow_loopback: bool,
    tls: Arc<ClientConfig>,
    last: Vec<DiscoveredServer>,
    to: Reporter,
}

impl UpstreamSession {
    fn asked(&self) -> Vec<Endpoint> {
        let allowed = self.last.iter().filter(|server| is_allowed_server(server.ip, self.allow_loopback));
        let found = allowed.map(|server| Endpoint { host: ServerHost::Ip(server.ip), port: server.port });
        let found = found.filter(|endpoint| !self.access.servers.contains(endpoint)).take(MAX_ASKED);
        self.access.servers.iter().cloned().chain(found).collect()
    }

    /// Lists and watches at one server. An error means that the list was not read: whatever ends a watch after it leads to the next
    /// list.
    async fn run(&mut self, server: &Endpoint) -> Result<Followed, UpstreamError> {
        let list = self.get(server, SLICES).await?.whole().await?;
        let list: SliceList = serde_json::from_slice(&list).map_err(|_| UpstreamError::Content)?;
        let version = list.metadata.resource_version;
        if version.is_empty() || version.len() > MAX_VERSION || !version.bytes().all(|c| c.is_ascii_alphanumeric()) {
            return Err(UpstreamError::Content);
        }
        let slices = list.items.iter().filter(|slice| slice.metadata.name.as_deref() == Some(NAME));
        self.report(servers_of(slices, &SlicePort::Only)).await;
        let path = format!("{SLICES}&watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}");
        if let Ok(mut events) = self.get(server, &path).await {
            // Each event is the whole slice, so that one that is missed is made good by the next list.
            let ended = timeout(WATCH, self.watch(&mut events)).await;
            return Ok(Followed { is_noisy: matches!(ended, Ok(Err(UpstreamError::Noise))) });
        }
        Ok(Followed { is_noisy: false })
    }

    async fn watch(&mut self, events: &mut AnswerLines) -> Result<(), UpstreamError> {
        let mut seen = SeenEvents::default();
        while let Some(line) = events.next().await? {
            seen.count(line.len())?;
            let event: SliceEvent = serde_json::from_slice(&line).map_err(|_| UpstreamError::Content)?;
            let found = match event.r#type.as_str() {
                "ADDED" | "MODIFIED" => {
                    let slice: EndpointSlice =
                        serde_json::from_value(event.object).map_err(|_| UpstreamError::Content)?;
                    if slice.metadata.name.as_deref() != Some(NAME) {
                        continue;
                    }
                    servers_of([&slice], &SlicePort::Only)
                }
                "DELETED" => SliceServers::default(),
                "BOOKMARK" => continue,
                _ => return Err(UpstreamError::Content),
            };
            self.report(found).await;
        }
        Ok(())
    }

    async fn get(&self, server: &Endpoint, path: &str) -> Result<AnswerLines, UpstreamError> {
        get(&self.access, &self.tls, server, self.allow_loopback, path).await
    }

    async fn report(&mut self, found: SliceServers) {
        if !found.servers.is_empty() {
            self.last.clone_from(&found.servers);
        }
        self.to.report(SourceReport::Servers(found)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_ends_after_so_many_events_or_bytes() {
        let after = |bytes| {
            let mut seen = SeenEvents::default();
            (0..10_000).take_while(|_| seen.count(bytes).is_ok()).count()
        };
        assert_eq!([0, 100, 1 << 20].map(after), [MAX_EVENTS, MAX_EVENTS, 4]);
    }
}
