//! Configurations that a worker keeps by their text, for a proxy that keeps none by route.

use std::collections::HashMap;
use std::rc::{self, Rc};
use std::sync::Arc;
use std::time::Duration;

use super::route::LoadError;
use super::route_config::RouteConfig;
use super::route_update::RouteUpdate;
use crate::x509::hex_digest;

/// Time after which a cached configuration is forgotten that no request asks for.
const IDLE_TTL: Duration = Duration::from_secs(600);
/// Most texts of one compiled configuration that are cached: as many as a Gateway has listeners.
const MAX_TEXTS: usize = 64;

/// The clusters' configurations that a worker has met, for a proxy that has no configuration by route: a virtual host carries the
/// text and a digest of it, so that no request has to read the text.
#[derive(Debug)]
pub struct RouteCache<T> {
    routes: HashMap<Vec<u8>, CachedRoute<T>>,
    /// Those that were forgotten while streams kept them: the same text is the same edition again.
    kept: HashMap<Vec<u8>, KeptRoute<T>>,
}

#[derive(Debug)]
struct CachedRoute<T> {
    /// `None` for a configuration that cannot be used.
    route: Option<(Rc<RouteConfig<T>>, RouteUpdate<T>)>,
    used: Duration,
}

#[derive(Debug)]
struct KeptRoute<T> {
    route: rc::Weak<RouteConfig<T>>,
    update: RouteUpdate<T>,
}

impl<T> CachedRoute<T> {
    fn route(&self) -> Option<Rc<RouteConfig<T>>> {
        self.route.as_ref().map(|(route, _)| Rc::clone(route))
    }

    /// Whether it is of the same edition as another configuration of its cluster. `None` if that is of another cluster.
    fn is_of_edition(&self, other: &RouteConfig<T>) -> Option<bool> {
        let (route, _) = self.route.as_ref()?;
        (route.name == other.name).then(|| Arc::ptr_eq(&route.edition, &other.edition))
    }
}

impl<T> Default for RouteCache<T> {
    fn default() -> Self {
        RouteCache { routes: HashMap::new(), kept: HashMap::new() }
    }
}

impl<T> RouteCache<T> {
    /// The configuration of the current request. `None` if there is none that can be used: the request fails closed. `apply` gets the
    /// changes of a configuration that comes into use.
    ///
    /// # Errors
    /// [`LoadError`], at the first request.
    pub fn get(
        &mut self,
        digest: Option<Vec<u8>>,
        text: impl FnOnce() -> Option<Vec<u8>>,
        uptime: Duration,
        load: impl FnOnce(&[u8]) -> Result<(RouteConfig<T>, RouteUpdate<T>), LoadError>,
        apply: impl FnOnce(&RouteUpdate<T>),
    ) -> Result<Option<Rc<RouteConfig<T>>>, LoadError> {
        let given = digest.filter(|digest| !digest.is_empty());
        if let Some(cached) = given.as_ref().and_then(|digest| self.routes.get_mut(digest)) {
            cached.used = uptime;
            return Ok(cached.route());
        }
        let Some(text) = text() else { return Ok(None) };
        let digest = hex_digest(&text).to_vec();
        if given.is_some_and(|given| given != digest) {
            return Err(LoadError::Digest);
        }
        // Without a digest in the metadata this one may have been met before, too.
        if let Some(cached) = self.routes.get_mut(&digest) {
            cached.used = uptime;
            return Ok(cached.route());
        }
        let loaded = match self.revive(&digest) {
            Some(kept) => Ok(kept),
            None => load(&text).map(|(route, update)| (Rc::new(route), update)),
        };
        self.forget(loaded.as_ref().ok().map(|(route, _)| &**route), uptime);
        if let Ok((_, update)) = &loaded {
            apply(update);
        }
        let (route, error) = match loaded {
            Ok(route) => (Some(route), None),
            Err(error) => (None, Some(error)),
        };
        let cached = CachedRoute { route, used: uptime };
        let found = cached.route();
        self.routes.insert(digest, cached);
        error.map_or(Ok(found), Err)
    }

    /// A configuration that streams have kept, unless they have to end.
    fn revive(&mut self, digest: &[u8]) -> Option<(Rc<RouteConfig<T>>, RouteUpdate<T>)> {
        let kept = self.kept.remove(digest)?;
        let route = kept.route.upgrade().filter(|route| !route.is_ended())?;
        kept.update.renew();
        Some((route, kept.update))
    }

    /// Forgets earlier configurations of the cluster, and those that no request asks for. Configurations that differ in host names
    /// alone are of several listeners, and stay.
    fn forget(&mut self, newest: Option<&RouteConfig<T>>, uptime: Duration) {
        let unused = newest.and_then(|newest| self.longest_unused(newest));
        let is_old = |_: &Vec<u8>, cached: &mut CachedRoute<T>| {
            let is_replaced = newest.is_some_and(|newest| match cached.is_of_edition(newest) {
                Some(true) => unused == Some(cached.used),
                Some(false) => true,
                None => false,
            });
            is_replaced || uptime.saturating_sub(cached.used) >= IDLE_TTL
        };
        self.kept.retain(|_, kept| kept.route.strong_count() > 0);
        for (digest, cached) in self.routes.extract_if(is_old) {
            let in_use = cached.route.filter(|(route, _)| Rc::strong_count(route) > 1);
            let kept = in_use.map(|(route, update)| KeptRoute { route: Rc::downgrade(&route), update });
            self.kept.extend(kept.map(|kept| (digest, kept)));
        }
    }

    /// When a request last asked for the one of those beside it that has been asked for the longest ago, if there are too many.
    fn longest_unused(&self, newest: &RouteConfig<T>) -> Option<Duration> {
        let beside = || self.routes.values().filter(|cached| cached.is_of_edition(newest) == Some(true));
        beside().map(|cached| cached.used).min().filter(|_| beside().count() >= MAX_TEXTS)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use portcullis_filter_config::ClusterConfig;

    use super::*;
    use crate::exchange::CompiledClusters;
    use crate::gateway::tests::plain_config;
    use crate::long_streams::{StreamOwners, StreamStart};
    use crate::state_store::EphemeralState;
    use crate::testing::moment;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn text_that_streams_keep_is_one_edition() {
        let (owners, clusters) = (StreamOwners::<u32>::default(), CompiledClusters::default());
        let mut cache = RouteCache::default();
        let mut seen = |name: &str, limit: u64| {
            let config = ClusterConfig {
                name: name.to_owned(),
                max_session_duration_seconds: Some(limit),
                ..plain_config(None)
            };
            let text = serde_json::to_vec(&config).unwrap();
            let load = |text: &[u8]| RouteConfig::load(text, &EphemeralState([7; 32]), &owners, &clusters);
            let apply = |update: &RouteUpdate<u32>| drop(update.apply(&owners, moment(at(0))));
            cache.get(None, || Some(text), at(0), load, apply).unwrap().unwrap()
        };
        // A stream of each of two editions, which take turns.
        let (first, second) = (seen("a", 1), seen("a", 2));
        for _ in 0..1_000 {
            assert!(Rc::ptr_eq(&first, &seen("a", 1)) && Rc::ptr_eq(&second, &seen("a", 2)));
        }
        let session = StreamStart {
            server: None,
            is_session: true,
            is_answer: false,
            kept: &first.load,
            load: first.load.number(),
            received: at(0),
            origin: None,
        };
        assert_eq!(first.streams.register(session, 1, moment(at(0))).1, Some(at(2)), "the limit of the newest");
        seen("a", 1);
        assert_eq!(first.streams.expire(at(0), |_, _| ()), None);
        assert_eq!((owners.ended(), first.is_ended()), (0, false));
        let weak = Rc::downgrade(&second);
        drop(second);
        assert_eq!(weak.strong_count(), 0, "nothing else keeps it");
        let kept: Vec<_> = (10..300).map(|limit| seen("a", limit)).collect();
        assert!(first.is_ended() && !kept.last().unwrap().is_ended());
        assert!(!Rc::ptr_eq(&first, &seen("a", 1)), "its streams have to end: requests get one of their own");
    }

    #[test]
    fn texts_of_several_listeners_are_cached_together() {
        let (owners, clusters) = (StreamOwners::<u32>::default(), CompiledClusters::default());
        let mut cache = RouteCache::default();
        let loads = Cell::new(0);
        let mut seen = |name: &str, uptime: u64| {
            let config = ClusterConfig { authorities: vec![name.to_owned()], ..plain_config(None) };
            let text = serde_json::to_vec(&config).unwrap();
            let load = |text: &[u8]| {
                loads.set(loads.get() + 1);
                RouteConfig::load(text, &EphemeralState([7; 32]), &owners, &clusters)
            };
            let apply = |update: &RouteUpdate<u32>| drop(update.apply(&owners, moment(at(uptime))));
            cache.get(None, || Some(text), at(uptime), load, apply).unwrap().unwrap()
        };
        let (first, second) = (seen("a.test", 0), seen("b.test", 0));
        assert!(Arc::ptr_eq(&first.edition, &second.edition) && !Rc::ptr_eq(&first, &second));
        for _ in 0..100 {
            assert!(Rc::ptr_eq(&first, &seen("a.test", 0)) && Rc::ptr_eq(&second, &seen("b.test", 0)));
        }
        assert_eq!(loads.get(), 2);
        for number in 1..300 {
            assert!(Arc::ptr_eq(&first.edition, &seen(&format!("{number}.test"), number).edition));
        }
        assert_eq!((cache.routes.len(), cache.kept.len()), (MAX_TEXTS, 2), "beside those that streams keep");
    }
}
