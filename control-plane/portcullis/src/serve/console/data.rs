use std::sync::{Arc, OnceLock};

use portcullis_sources::ObjectSet;
use tokio::sync::watch;

use crate::serve::fleet::view::{ClusterView, FleetView};
use crate::serve::fleet::{Fleet, FleetTime};
use crate::serve::status::StatusBody;
use crate::serve::status_observer::StatusObserver;

/// The data that the console shows.
pub(in crate::serve) trait ConsoleData: Send + Sync {
    fn fleet(&self) -> Arc<FleetView>;
    /// `None` if no object has that name.
    fn cluster(&self, name: &str) -> Option<ClusterView>;
    /// Changes when the views do.
    fn changed(&self) -> watch::Receiver<u64>;
    fn status(&self) -> Arc<StatusBody>;
    /// The newest objects of the source; empty before the first ones.
    fn objects(&self) -> Arc<ObjectSet>;
}

/// The data of a running control plane.
pub(in crate::serve) struct LiveData {
    pub(in crate::serve) fleet: Arc<Fleet>,
    pub(in crate::serve) observer: Arc<StatusObserver>,
    /// Set when the source has its first objects.
    pub(in crate::serve) objects: Arc<OnceLock<watch::Receiver<Arc<ObjectSet>>>>,
}

impl ConsoleData for LiveData {
    fn fleet(&self) -> Arc<FleetView> {
        self.fleet.fleet(FleetTime::now())
    }

    fn cluster(&self, name: &str) -> Option<ClusterView> {
        self.fleet.cluster(name, FleetTime::now())
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.fleet.changed()
    }

    fn status(&self) -> Arc<StatusBody> {
        self.observer.status()
    }

    fn objects(&self) -> Arc<ObjectSet> {
        self.objects.get().map(|objects| Arc::clone(&objects.borrow())).unwrap_or_default()
    }
}
