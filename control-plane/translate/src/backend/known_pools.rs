use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::Settings;
use portcullis_attach::ServedBackend;

use super::{BackendPool, Passage, ServicePort, ServiceServers};

/// The pools of the last translation.
#[derive(Default)]
pub(crate) struct KnownPools(BTreeMap<ServedBackend, (PoolOrigin, Arc<BackendPool>)>);

/// Everything that a pool is made of beside the settings.
pub(crate) enum PoolOrigin {
    Cluster(Arc<Passage>),
    Service(ServicePort, ServiceServers),
    /// It is not there.
    Absent,
}

impl KnownPools {
    /// The pool of a server: the same allocation as long as it is equal, so that nothing is made anew.
    pub(crate) fn pool(
        &mut self,
        backend: &ServedBackend,
        origin: PoolOrigin,
        settings: &Settings,
    ) -> Arc<BackendPool> {
        let known = self.0.get(backend);
        if let Some((of, pool)) = known
            && of.is_same(&origin)
        {
            return Arc::clone(pool);
        }
        let pool = origin.pool(settings);
        let pool = match known {
            Some((_, before)) if **before == pool => Arc::clone(before),
            Some(_) | None => Arc::new(pool),
        };
        self.0.insert(backend.clone(), (origin, Arc::clone(&pool)));
        pool
    }

    /// Forgets the others.
    pub(crate) fn keep(&mut self, is_wanted: impl Fn(&ServedBackend) -> bool) {
        self.0.retain(|backend, _| is_wanted(backend));
    }
}

impl PoolOrigin {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cluster(one), Self::Cluster(other)) => Arc::ptr_eq(one, other),
            (Self::Service(one, servers), Self::Service(other, others)) => one == other && servers == others,
            (Self::Absent, Self::Absent) => true,
            _ => false,
        }
    }

    fn pool(&self, settings: &Settings) -> BackendPool {
        match self {
            Self::Cluster(passage) => BackendPool::of_cluster(passage, settings),
            Self::Service(port, servers) => BackendPool::of_service(port, servers, settings),
            Self::Absent => BackendPool::default(),
        }
    }
}
