use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::Settings;
use portcullis_translate::{Resource, type_urls};

/// Longer than a request may wait for reviews and repeat itself before it chooses a server.
const PERIOD: Duration = Duration::from_secs(30);

/// Server groups that no policy of an object names any more. Requests that came before that change may still be on their way
/// to them, for instance because they wait for a review: for a while Envoy keeps the groups.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    under: Option<Settings>,
    /// Clusters and endpoints of the last translation, by type and name.
    before: Groups,
    kept: BTreeMap<Key, Kept>,
    /// What each object's clusters may refer to.
    secrets: BTreeMap<String, BTreeSet<String>>,
}

type Key = (String, String);
type Groups = BTreeMap<Key, Arc<Resource>>;

#[derive(Debug)]
struct Kept {
    resource: Arc<Resource>,
    until: Instant,
}

impl Lingering {
    /// Compares a translation with the one before; what of it is kept for now.
    ///
    /// Nothing is kept of an object that is gone or lost a secret, because a resource may refer only to what is there.
    pub(super) fn follow(
        &mut self,
        translated: &[Arc<Resource>],
        settings: &Settings,
        now: Instant,
    ) -> Vec<Arc<Resource>> {
        let groups = groups(translated);
        let secrets = secrets(translated);
        let before = std::mem::replace(&mut self.before, groups);
        if self.under.as_ref() != Some(settings) {
            // They would be clusters of other names and limits.
            self.under = Some(settings.clone());
            self.kept.clear();
            self.secrets = secrets;
            return Vec::new();
        }
        let until = now + PERIOD;
        let left = before.into_iter().map(|(key, resource)| (key, Kept { resource, until }));
        self.kept.extend(left.filter(|(key, _)| !self.before.contains_key(key)));
        let had = std::mem::replace(&mut self.secrets, secrets);
        let lost = |owner: &String| match (had.get(owner), self.secrets.get(owner)) {
            (Some(had), Some(has)) => !had.is_subset(has),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let served: BTreeSet<_> = self.before.values().filter_map(|resource| resource.owner.as_ref()).collect();
        self.kept.retain(|key, kept| {
            let stays = kept.resource.owner.as_ref().is_some_and(|owner| served.contains(owner) && !lost(owner));
            stays && kept.until > now && !self.before.contains_key(key)
        });
        self.kept.values().map(|kept| Arc::clone(&kept.resource)).collect()
    }

    /// When something is kept no longer.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.kept.values().map(|kept| kept.until).min()
    }
}

fn groups(translated: &[Arc<Resource>]) -> Groups {
    let types = [type_urls::cluster(), type_urls::assignment()];
    let groups = translated.iter().filter(|resource| types.contains(&resource.type_url));
    groups.map(|resource| ((resource.type_url.clone(), resource.name.clone()), Arc::clone(resource))).collect()
}

fn secrets(translated: &[Arc<Resource>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut secrets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for resource in translated.iter().filter(|resource| resource.type_url == type_urls::secret()) {
        if let Some(owner) = &resource.owner {
            secrets.entry(owner.clone()).or_default().insert(resource.name.clone());
        }
    }
    secrets
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
    fn nothing_stays_of_an_object_that_is_gone_or_without_its_secrets_or_under_other_settings() {
        let now = Instant::now();
        let before = ["a/all", "a/one", "!a/ca", "b/all"];
        for after in [&["b/all"][..], &["a/all", "b/all"]] {
            let mut lingering = Lingering::default();
            kept(&mut lingering, &before, now);
            assert_eq!(kept(&mut lingering, after, now), [""; 0], "{after:?}");
        }
        let mut lingering = Lingering::default();
        kept(&mut lingering, &before, now);
        let settings = Settings { instance: "other".to_owned(), ..Settings::default() };
        assert!(lingering.follow(&all(&["a/all", "!a/ca"]), &settings, now).is_empty());
    }
}
