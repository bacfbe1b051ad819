use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_filter_config::without_generation;
use portcullis_translate::{Resource, type_urls};

use super::super::group_change::GroupChange;

/// The time for which a retired group is retained: longer than a request may wait for reviews and retry before it chooses a
/// server.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// The number of resources that are retained of one object, the latest ones: frequent edits of it add no more.
const MAX_PER_OBJECT: usize = 256;

/// Groups of servers that no policy of an object leads to any more, or that belong to an earlier generation of it. Requests
/// that came before the change may still be on their way to them, for example while they wait for a review, so Envoy keeps
/// their clusters, endpoints and secrets for a while.
#[derive(Debug, Default)]
pub(in super::super) struct RetiredGroups {
    /// The instance of the settings, which is part of all names.
    instance: String,
    /// By type and name.
    retired: BTreeMap<(&'static str, Arc<str>), Retired>,
}

#[derive(Debug)]
struct Retired {
    resource: Arc<Resource>,
    until: Instant,
}

impl RetiredGroups {
    /// Compares a translation with the one before. Groups of an object that is served no longer are not retained, nor are those
    /// of objects in `replaced`, whose names belong to other objects now.
    pub(in super::super) fn record(
        &mut self,
        change: &GroupChange,
        replaced: &BTreeSet<String>,
        settings: &Settings,
        now: Instant,
    ) {
        if self.instance != settings.instance {
            // The groups belong to another gateway.
            self.instance.clone_from(&settings.instance);
            self.retired.clear();
            return;
        }
        let until = now + GRACE_PERIOD;
        let newly = change.gone().filter(|resource| has_generation(resource));
        self.retired.extend(newly.map(|resource| (key(resource), Retired { resource: Arc::clone(resource), until })));
        change.made().for_each(|resource| drop(self.retired.remove(&key(resource))));
        let served: BTreeSet<_> = change.made().filter_map(|resource| resource.owner.as_ref()).collect();
        let left = change.gone().filter_map(|resource| resource.owner.as_ref()).filter(|owner| !served.contains(owner));
        let left: BTreeSet<_> = left.collect();
        self.retired.retain(|_, retired| {
            let is_there = |owner: &Arc<str>| !left.contains(owner) && !replaced.contains(&**owner);
            retired.resource.owner.as_ref().is_some_and(is_there) && retired.until > now
        });
        self.drop_oldest();
    }

    /// The resources of retired groups.
    pub(in super::super) fn retained(&self) -> Vec<Arc<Resource>> {
        self.retired.values().map(|retired| Arc::clone(&retired.resource)).collect()
    }

    /// Keeps each object within its bound. All that was retired at one time is dropped together, so that no resource refers
    /// to a dropped one.
    fn drop_oldest(&mut self) {
        let mut counts: BTreeMap<&Option<Arc<str>>, BTreeMap<Instant, usize>> = BTreeMap::new();
        for retired in self.retired.values() {
            *counts.entry(&retired.resource.owner).or_default().entry(retired.until).or_default() += 1;
        }
        let mut dropped: BTreeMap<Option<Arc<str>>, Instant> = BTreeMap::new();
        for (owner, counts) in counts {
            let mut sum = 0;
            for (until, count) in counts.into_iter().rev() {
                sum += count;
                if sum > MAX_PER_OBJECT {
                    dropped.insert(owner.clone(), until);
                    break;
                }
            }
        }
        self.retired
            .retain(|_, retired| dropped.get(&retired.resource.owner).is_none_or(|until| retired.until > *until));
    }

    /// The next time at which a group is retained no longer.
    pub(in super::super) fn next_expiry(&self) -> Option<Instant> {
        self.retired.values().map(|retired| retired.until).min()
    }
}

fn key(resource: &Resource) -> (&'static str, Arc<str>) {
    (resource.type_url, Arc::clone(&resource.name))
}

/// Clusters, endpoints, and the secrets of clusters, whose names carry a generation.
fn has_generation(resource: &Resource) -> bool {
    let (clusters, endpoints, secrets) = (type_urls::cluster(), type_urls::assignment(), type_urls::secret());
    let is_marked = || *without_generation(&resource.name) != *resource.name;
    resource.type_url == clusters || resource.type_url == endpoints || (resource.type_url == secrets && is_marked())
}

#[cfg(test)]
mod tests {
    use std::ops::{Deref, DerefMut};

    use portcullis_translate::ResourceGroup;

    use super::super::super::group_change::KnownGroups;

    use super::*;

    /// Follows translations whose resources are in groups by owner.
    #[derive(Default)]
    struct Translations {
        retired: RetiredGroups,
        known: KnownGroups,
        groups: BTreeMap<Option<Arc<str>>, (Vec<String>, ResourceGroup)>,
    }

    impl Deref for Translations {
        type Target = RetiredGroups;
        fn deref(&self) -> &RetiredGroups {
            &self.retired
        }
    }

    impl DerefMut for Translations {
        fn deref_mut(&mut self) -> &mut RetiredGroups {
            &mut self.retired
        }
    }

    impl Translations {
        fn take(&mut self, translated: Vec<Arc<Resource>>, settings: &Settings, now: Instant) {
            let mut by_owner: BTreeMap<Option<Arc<str>>, Vec<Arc<Resource>>> = BTreeMap::new();
            for resource in translated {
                by_owner.entry(resource.owner.clone()).or_default().push(resource);
            }
            let mut before = std::mem::take(&mut self.groups);
            for (owner, resources) in by_owner {
                let names: Vec<_> = resources.iter().map(|one| format!("{} {}", one.type_url, one.name)).collect();
                let kept = before.remove(&owner).filter(|(known, _)| *known == names);
                self.groups.insert(owner, kept.unwrap_or_else(|| (names, resources.into())));
            }
            let groups: Vec<_> = self.groups.values().map(|(_, group)| Arc::clone(group)).collect();
            self.retired.record(&self.known.follow(&groups), &BTreeSet::new(), settings, now);
        }
    }

    fn resource(type_url: &'static str, name: &str) -> Arc<Resource> {
        let owner = name.split('/').next().map(Into::into);
        Arc::new(Resource {
            type_url,
            name: name.into(),
            value: Vec::new(),
            common: bytes::Bytes::new(),
            assignment: None,
            on_demand: false,
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

    fn retained(retired: &mut Translations, names: &[&str], now: Instant) -> Vec<String> {
        retired.take(all(names), &Settings::default(), now);
        retired.retained().iter().map(|resource| resource.name.to_string()).collect()
    }

    #[test]
    fn group_without_policy_is_retained_for_the_grace_period() {
        let (mut retired, now) = (Translations::default(), Instant::now());
        assert_eq!(retained(&mut retired, &["a/all", "a/one", "b/all", "!a/ca"], now), [""; 0]);
        assert_eq!(retained(&mut retired, &["a/all", "b/all", "!a/ca"], now), ["a/one"]);
        assert_eq!(retired.next_expiry(), Some(now + GRACE_PERIOD));
        assert_eq!(retained(&mut retired, &["a/all", "b/all", "!a/ca"], now + GRACE_PERIOD / 2), ["a/one"]);
        assert_eq!(retained(&mut retired, &["a/all", "b/all", "!a/ca"], now + GRACE_PERIOD), [""; 0]);
        assert_eq!(retired.next_expiry(), None);
    }

    #[test]
    fn group_that_returns_is_not_retained_as_well() {
        let (mut retired, now) = (Translations::default(), Instant::now());
        for names in [&["a/all", "a/one"][..], &["a/all"], &["a/all", "a/one"]] {
            retained(&mut retired, names, now);
        }
        assert_eq!(retained(&mut retired, &["a/all", "a/one"], now), [""; 0]);
    }

    #[test]
    fn retired_generation_keeps_its_own_secrets() {
        let (mut retired, now) = (Translations::default(), Instant::now());
        let settings = Settings::default();
        let first = ["a/all@1", "!a/client@1", "!a/serving"];
        let second = ["a/all@2", "!a/client@2", "!a/serving"];
        retired.take(all(&first), &settings, now);
        assert_eq!(retained(&mut retired, &first, now), [""; 0]);
        assert_eq!(retained(&mut retired, &second, now), ["a/all@1", "a/client@1"]);
        assert_eq!(retained(&mut retired, &first, now), ["a/all@2", "a/client@2"], "it is back");
        assert_eq!(retained(&mut retired, &first, now + GRACE_PERIOD), [""; 0]);
    }

    #[test]
    fn object_edited_often_retains_only_the_latest_groups() {
        let (mut retired, start) = (Translations::default(), Instant::now());
        let mut last = Vec::new();
        for number in 0..u32::try_from(3 * MAX_PER_OBJECT).unwrap() {
            let (pool, secret) = (format!("a/all@{number}"), format!("!a/client@{number}"));
            let now = start + Duration::from_millis(number.into());
            last = retained(&mut retired, &[pool.as_str(), secret.as_str(), "b/all@0"], now);
            assert!(last.len() <= MAX_PER_OBJECT, "{}", last.len());
        }
        assert!(last.len() > MAX_PER_OBJECT / 2 && last.contains(&format!("a/client@{}", 3 * MAX_PER_OBJECT - 2)));
        let pools = last.iter().filter(|name| name.contains("all")).count();
        assert_eq!(2 * pools, last.len(), "each pool has its secret");
    }

    #[test]
    fn removed_object_and_other_instance_retain_no_group() {
        let now = Instant::now();
        let before = ["a/all", "a/one", "!a/ca@1", "b/all"];
        let mut retired = Translations::default();
        retained(&mut retired, &before, now);
        assert_eq!(retained(&mut retired, &["b/all"], now), [""; 0]);
        let mut retired = Translations::default();
        retained(&mut retired, &before, now);
        let settings = Settings { instance: "other".to_owned(), ..Settings::default() };
        retired.take(all(&["a/all", "!a/ca@1"]), &settings, now);
        assert!(retired.retained().is_empty());
    }
}
