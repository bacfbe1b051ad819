use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::delta::DeltaStream;
use crate::lock::lock;
use crate::node::{View, combined};
use crate::snapshot::Snapshot;
use portcullis_api::status::GatewayProgress;

/// A stream that its task and the registry share.
pub(crate) type SharedStream = Arc<Mutex<DeltaStream>>;

/// A stream, and what its node is sent.
#[derive(Clone)]
pub(crate) struct OpenStream {
    /// The name of its node.
    pub(crate) name: String,
    pub(crate) stream: SharedStream,
    pub(crate) view: View,
}

/// The open streams of one moment.
pub struct OpenStreams(pub(crate) Vec<OpenStream>);

impl std::fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| (&one.name, &one.view))).finish()
    }
}

impl OpenStreams {
    /// The progress of every connected node with one owner's resources in `snapshot`. Empty if the snapshot holds none of them.
    pub fn progress(&self, snapshot: &Snapshot, owner: &str) -> BTreeMap<String, GatewayProgress> {
        let mut progresses: BTreeMap<String, GatewayProgress> = BTreeMap::new();
        // Those of a view follow each other: only streams that may have the owner are looked at.
        for of_view in self.0.chunk_by(|one, other| one.view == other.view) {
            let view = of_view.first().and_then(|one| snapshot.view(&one.view));
            let Some(snapshot) = view.filter(|view| view.has_owner(owner)) else { continue };
            for OpenStream { name, stream, .. } in of_view {
                let stream = lock(stream);
                let progress = stream.progress(snapshot, owner).filter(|_| !stream.node().is_empty());
                progress.into_iter().for_each(|progress| add(&mut progresses, name.clone(), progress));
            }
        }
        progresses
    }
}

/// Adds the progress of a stream to that of others of the same name.
pub(crate) fn add(progresses: &mut BTreeMap<String, GatewayProgress>, name: String, progress: GatewayProgress) {
    let progress = match progresses.remove(&name) {
        Some(known) => combined(known, progress),
        None => progress,
    };
    progresses.insert(name, progress);
}
