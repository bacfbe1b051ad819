use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_filter_config::without_generation;
use portcullis_translate::{Resource, type_urls};

/// Longer than a request may wait for reviews and repeat itself before it chooses a server.
const PERIOD: Duration = Duration::from_secs(30);

/// What of one object is kept at most, the latest: an object that is edited over and over gets no more.
const MOST: usize = 256;

/// Pools that no policy of an object leads to any more, or that belong to an earlier generation of it. Requests that came
/// before that change may still be on their way to them, for instance because they wait for a review: for a while Envoy keeps
/// the pools, with their own endpoints and their own secrets.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    /// Under whose names everything stands.
    instance: String,
    /// What reaches servers, of the last translation, by type and name.
    before: Resources,
    kept: BTreeMap<Key, Kept>,
}

type Key = (String, String);
type Resources = BTreeMap<Key, Arc<Resource>>;

#[derive(Debug)]
struct Kept {
    resource: Arc<Resource>,
    until: Instant,
}

impl Lingering {
    /// Compares a translation with the one before; what of it is kept for now.
    ///
    /// Nothing is kept of an object that is served no longer.
    pub(super) fn follow(
        &mut self,
        translated: &[Arc<Resource>],
        settings: &Settings,
        now: Instant,
    ) -> Vec<Arc<Resource>> {
        let before = std::mem::replace(&mut self.before, reaching_servers(translated));
        if self.instance != settings.instance {
            // They would be of another gateway.
            self.instance.clone_from(&settings.instance);
            self.kept.clear();
            return Vec::new();
        }
        let until = now + PERIOD;
        let left = before.into_iter().map(|(key, resource)| (key, Kept { resource, until }));
        self.kept.extend(left.filter(|(key, _)| !self.before.contains_key(key)));
        let served: BTreeSet<_> = self.before.values().filter_map(|resource| resource.owner.as_ref()).collect();
        self.kept.retain(|key, kept| {
            let stays = kept.resource.owner.as_ref().is_some_and(|owner| served.contains(owner));
            stays && kept.until > now && !self.before.contains_key(key)
        });
        self.bound();
        self.kept.values().map(|kept| Arc::clone(&kept.resource)).collect()
    }

    /// Lets go of what an object has too much of, the oldest first; all that was left at one time goes together, so that
    /// nothing refers to what is gone.
    fn bound(&mut self) {
        let mut times: BTreeMap<&Option<String>, BTreeMap<Instant, usize>> = BTreeMap::new();
        for kept in self.kept.values() {
            *times.entry(&kept.resource.owner).or_default().entry(kept.until).or_default() += 1;
        }
        let mut oldest: BTreeMap<Option<String>, Instant> = BTreeMap::new();
        for (owner, times) in times {
            let mut sum = 0;
            for (until, count) in times.into_iter().rev() {
                sum += count;
                if sum > MOST {
                    oldest.insert(owner.clone(), until);
                    break;
                }
            }
        }
        self.kept.retain(|_, kept| oldest.get(&kept.resource.owner).is_none_or(|oldest| kept.until > *oldest));
    }

    /// When something is kept no longer.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.kept.values().map(|kept| kept.until).min()
    }
}

/// Pools, endpoints, and the secrets of pools.
fn reaching_servers(translated: &[Arc<Resource>]) -> Resources {
    let (clusters, endpoints, secrets) = (type_urls::cluster(), type_urls::assignment(), type_urls::secret());
    let is_wanted = |resource: &&Arc<Resource>| {
        let is_of_pools = || without_generation(&resource.name) != resource.name;
        resource.type_url == clusters
            || resource.type_url == endpoints
            || (resource.type_url == secrets && is_of_pools())
    };
    let all = translated.iter().filter(is_wanted);
    all.map(|resource| ((resource.type_url.clone(), resource.name.clone()), Arc::clone(resource))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(type_url: String, name: &str) -> Arc<Resource> {
        let owner = name.split('/').next().map(str::to_owned);
        Arc::new(Resource {
            type_url,
            name: name.to_owned(),
            value: Vec::new(),
            assignment: None,
            owner,
            parts: Vec::new(),
        })
    }

    /// Clusters, and secrets with a leading `!`.
    fn all(names: &[&str]) -> Vec<Arc<Resource>> {
        let one = |name: &&str| match name.strip_prefix('!') {
            Some(secret) => resource(type_urls::secret(), secret),
            None => resource(type_urls::cluster(), name),
        };
        names.iter().map(one).collect()
    }

    fn kept(lingering: &mut Lingering, names: &[&str], now: Instant) -> Vec<String> {
        let kept = lingering.follow(&all(names), &Settings::default(), now);
        kept.iter().map(|resource| resource.name.clone()).collect()
    }

    #[test]
    fn a_group_that_is_left_stays_for_a_while() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        assert_eq!(kept(&mut lingering, &["a/all", "a/one", "b/all", "!a/ca"], now), [""; 0]);
        assert_eq!(kept(&mut lingering, &["a/all", "b/all", "!a/ca"], now), ["a/one"]);
        assert_eq!(lingering.next_end(), Some(now + PERIOD));
        assert_eq!(kept(&mut lingering, &["a/all", "b/all", "!a/ca"], now + PERIOD / 2), ["a/one"]);
        assert_eq!(kept(&mut lingering, &["a/all", "b/all", "!a/ca"], now + PERIOD), [""; 0]);
        assert_eq!(lingering.next_end(), None);
    }

    #[test]
    fn a_group_that_comes_back_is_the_new_one() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        for names in [&["a/all", "a/one"][..], &["a/all"], &["a/all", "a/one"]] {
            kept(&mut lingering, names, now);
        }
        assert_eq!(kept(&mut lingering, &["a/all", "a/one"], now), [""; 0]);
    }

    #[test]
    fn a_generation_that_is_left_keeps_its_own_secrets() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        let settings = Settings::default();
        let first = ["a/all@1", "!a/client@1", "!a/serving"];
        let second = ["a/all@2", "!a/client@2", "!a/serving"];
        lingering.follow(&all(&first), &settings, now);
        assert_eq!(kept(&mut lingering, &first, now), [""; 0]);
        assert_eq!(kept(&mut lingering, &second, now), ["a/all@1", "a/client@1"]);
        assert_eq!(kept(&mut lingering, &first, now), ["a/all@2", "a/client@2"], "it is back");
        assert_eq!(kept(&mut lingering, &first, now + PERIOD), [""; 0]);
    }

    #[test]
    fn an_object_edited_over_and_over_keeps_the_latest_only() {
        let (mut lingering, start) = (Lingering::default(), Instant::now());
        let mut last = Vec::new();
        for number in 0..u32::try_from(3 * MOST).unwrap() {
            let (pool, secret) = (format!("a/all@{number}"), format!("!a/client@{number}"));
            let now = start + Duration::from_millis(number.into());
            last = kept(&mut lingering, &[pool.as_str(), secret.as_str(), "b/all@0"], now);
            assert!(last.len() <= MOST, "{}", last.len());
        }
        assert!(last.len() > MOST / 2 && last.contains(&format!("a/client@{}", 3 * MOST - 2)));
        let pools = last.iter().filter(|name| name.contains("all")).count();
        assert_eq!(2 * pools, last.len(), "each pool has its secret");
    }

    #[test]
    fn nothing_stays_of_an_object_that_is_gone_or_of_another_instance() {
        let now = Instant::now();
        let before = ["a/all", "a/one", "!a/ca@1", "b/all"];
        let mut lingering = Lingering::default();
        kept(&mut lingering, &before, now);
        assert_eq!(kept(&mut lingering, &["b/all"], now), [""; 0]);
        let mut lingering = Lingering::default();
        kept(&mut lingering, &before, now);
        let settings = Settings { instance: "other".to_owned(), ..Settings::default() };
        assert!(lingering.follow(&all(&["a/all", "!a/ca@1"]), &settings, now).is_empty());
    }
}
