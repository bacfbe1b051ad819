//! The servers of streams, also of those that are registered before their server is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{RegistryState, ServerStreams, StreamGuard, StreamRegistry};

impl<T> StreamGuard<T> {
    /// Notes the server of the stream, in the place of the one that was noted before: a proxy may try another one. `edition` is the
    /// one that the stream began under. Returns when [`StreamRegistry::expire`] has to be called because of it, if at all.
    pub(crate) fn place(&self, server: &str, edition: u64, now: Duration) -> Option<Duration> {
        let mut inner = self.streams.lock();
        if inner.place(self.number, server, edition, now) { inner.next_end() } else { None }
    }

    /// The streams among which it is.
    pub(crate) fn registry(&self) -> &Arc<StreamRegistry<T>> {
        &self.streams
    }
}

impl<T> RegistryState<T> {
    /// Whether the server was taken away already. A stream whose end was due is forgotten.
    fn place(&mut self, number: u64, name: &str, edition: u64, now: Duration) -> bool {
        let Some(stream) = self.streams.get_mut(&number).filter(|stream| stream.server.as_deref() != Some(name)) else {
            return false;
        };
        let before = stream.server.replace(name.into());
        if let Some(before) = before
            && let Some(server) = self.servers.get_mut(&before)
        {
            server.streams.remove(&number);
            if server.streams.is_empty() {
                self.servers.remove(&before);
            }
        }
        self.note_server(number, name, edition, now)
    }

    /// Notes that a stream, which began under an edition, is on a server. Returns whether that was taken away already.
    pub(super) fn note_server(&mut self, number: u64, name: &str, edition: u64, now: Duration) -> bool {
        let served = self.served.as_ref();
        // A later edition's server may not have been named here yet.
        let is_gone = served.is_some_and(|served| edition <= served.edition && !served.names.contains(name));
        let new = || ServerStreams { gone_since: is_gone.then_some(now), streams: BTreeSet::new() };
        self.servers.entry(name.into()).or_insert_with(new).streams.insert(number);
        is_gone
    }
}
