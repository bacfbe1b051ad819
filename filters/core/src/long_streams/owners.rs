use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::StreamRegistry;
use super::edition::{Edition, Editions};

/// Fewer names than this are not worth a look.
const SWEEP_THRESHOLD: usize = 64;

/// The long-running streams of all objects, by the cluster's name and the word for its object: a name's next owner says nothing
/// about the servers and the sessions of the one before, but its lists may deny their senders. Streams live as long as something
/// uses them, over all edits. And the editions that streams keep, by the cluster's name.
#[derive(Debug)]
pub struct StreamOwners<T> {
    names: Mutex<OwnerNames<T>>,
    ended: AtomicU64,
}

/// The word for an object, and its streams.
type Owner<T> = (String, Weak<StreamRegistry<T>>);

#[derive(Debug)]
struct OwnerNames<T> {
    names: HashMap<String, OwnerName<T>>,
    /// Number of names at which unused ones are swept.
    most: usize,
    /// Editions whose streams have to end.
    ended: Vec<Weak<Edition>>,
}

#[derive(Debug)]
struct OwnerName<T> {
    /// Rarely more than one.
    objects: Vec<Owner<T>>,
    editions: Editions,
    /// Those of all variants together: edits of a route's policies end no stream of the cluster's other routes.
    of_variants: Editions,
}

impl<T> Default for OwnerName<T> {
    fn default() -> Self {
        OwnerName { objects: Vec::new(), editions: Editions::default(), of_variants: Editions::default() }
    }
}

impl<T> OwnerName<T> {
    fn is_used(&self) -> bool {
        !(self.editions.are_gone() && self.of_variants.are_gone())
            || self.objects.iter().any(|(_, streams)| streams.strong_count() > 0)
    }

    fn alive(&self) -> impl Iterator<Item = (&str, Arc<StreamRegistry<T>>)> {
        self.objects.iter().filter_map(|(object, streams)| Some((object.as_str(), streams.upgrade()?)))
    }
}

impl<T> Default for StreamOwners<T> {
    fn default() -> Self {
        let names = OwnerNames { names: HashMap::new(), most: SWEEP_THRESHOLD, ended: Vec::new() };
        StreamOwners { names: Mutex::new(names), ended: AtomicU64::new(0) }
    }
}

impl<T> StreamOwners<T> {
    /// The streams of an object.
    pub fn of(&self, name: &str, object: &str) -> Arc<StreamRegistry<T>> {
        let mut names = self.lock();
        names.sweep();
        let objects = &mut names.names.entry(name.to_owned()).or_default().objects;
        objects.retain(|(_, streams)| streams.strong_count() > 0);
        if let Some(known) = objects.iter().find(|(known, _)| known == object).and_then(|(_, known)| known.upgrade()) {
            return known;
        }
        let new = Arc::default();
        objects.push((object.to_owned(), Arc::downgrade(&new)));
        new
    }

    /// The streams of other objects of the name.
    pub(crate) fn others(&self, name: &str, object: &str) -> Vec<Arc<StreamRegistry<T>>> {
        let names = self.lock();
        let others = names.names.get(name).into_iter().flat_map(OwnerName::alive).filter(|(other, _)| *other != object);
        others.map(|(_, streams)| streams).collect()
    }

    /// Calls `f` for the streams of every object.
    pub fn for_each(&self, f: impl FnMut(Arc<StreamRegistry<T>>)) {
        let all: Vec<_> =
            self.lock().names.values().flat_map(|name| name.alive().map(|(_, streams)| streams)).collect();
        all.into_iter().for_each(f);
    }

    /// Notes an edition as the newest of the name, or of its variants. Returns the streams of all objects of the name if some of them have to end
    /// because of it: [`StreamRegistry::expire`] ends those that run for long.
    pub(crate) fn use_edition(&self, name: &str, edition: &Arc<Edition>) -> Vec<Arc<StreamRegistry<T>>> {
        let mut names = self.lock();
        let OwnerNames { names, ended, .. } = &mut *names;
        let name = names.entry(name.to_owned()).or_default();
        let editions = if edition.variant().is_empty() { &mut name.editions } else { &mut name.of_variants };
        let now_ended = editions.add(edition);
        if now_ended.is_empty() {
            return Vec::new();
        }
        ended.retain(|edition| edition.strong_count() > 0);
        ended.extend(now_ended.iter().map(Arc::downgrade));
        self.ended.fetch_add(1, Ordering::AcqRel);
        name.alive().map(|(_, streams)| streams).collect()
    }

    /// A number that changes whenever streams of further editions have to end ([`StreamOwners::ended_editions`]).
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// The ids of the editions whose streams have to end, as far as something keeps them. Streams that run for long are ended without
    /// the host's help; others are the host's to find.
    pub fn ended_editions(&self) -> HashSet<u64> {
        let names = self.lock();
        let ended = names.ended.iter().filter_map(Weak::upgrade).filter(|edition| edition.is_ended());
        ended.map(|edition| edition.id()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, OwnerNames<T>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> OwnerNames<T> {
    fn sweep(&mut self) {
        // Not at every call: a configuration with many clusters would look through all of them for each.
        if self.names.len() >= self.most {
            self.names.retain(|_, name| name.is_used());
            self.most = self.names.len().saturating_mul(2).max(SWEEP_THRESHOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_of_a_name_has_streams_of_its_own() {
        let owners = StreamOwners::<()>::default();
        let (first, second) = (owners.of("a", "1"), owners.of("a", "2"));
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, &owners.of("a", "1")));
        assert_eq!(owners.others("a", "2").len(), 1);
        assert!(Arc::ptr_eq(&owners.others("a", "2")[0], &first) && owners.others("b", "2").is_empty());
        let mut number = 0;
        owners.for_each(|_| number += 1);
        assert_eq!(number, 2);
        drop(first);
        assert!(owners.others("a", "2").is_empty());
        for name in 0..1_000 {
            drop(owners.of(&name.to_string(), ""));
        }
        let kept = owners.names.lock().unwrap().names.len();
        assert!(kept <= SWEEP_THRESHOLD + 1 && Arc::ptr_eq(&second, &owners.of("a", "2")), "{kept}");
    }

    #[test]
    fn oldest_editions_beyond_the_bound_have_to_end() {
        // (bytes of text of each, editions that are kept)
        for (text, kept) in [(1, 256), (10 << 20, 7), (1 << 30, 1)] {
            let owners = StreamOwners::<()>::default();
            // Objects that follow one another share the bound of their name; another name has its own.
            let _streams = [owners.of("a", "1"), owners.of("a", "2"), owners.of("b", "3")];
            let other = Arc::new(Edition::new(1_000, text, 0));
            assert!(owners.use_edition("b", &other).is_empty());
            let mut editions = Vec::new();
            for id in 0..300 {
                editions.push(Arc::new(Edition::new(id, text, 0)));
                let concerned = owners.use_edition("a", editions.last().unwrap());
                let excess = usize::try_from(id).unwrap() >= kept;
                assert_eq!(concerned.len(), if excess { 2 } else { 0 }, "{id}");
            }
            let ended = editions.iter().filter(|edition| edition.is_ended()).count();
            assert_eq!((ended, owners.ended()), (300 - kept, 300 - kept as u64));
            assert!(editions.iter().is_sorted_by_key(|edition| !edition.is_ended()), "the oldest first");
            assert_eq!(owners.ended_editions(), (0..300 - kept as u64).collect());
            assert!(!other.is_ended());
            editions.clear();
            assert!(owners.ended_editions().is_empty(), "none that nothing keeps");
        }
    }

    #[test]
    fn editions_that_nothing_keeps_make_room() {
        let owners = StreamOwners::<()>::default();
        let oldest = Arc::new(Edition::new(0, 1, 1));
        owners.use_edition("a", &oldest);
        for id in 1..1_000 {
            assert!(owners.use_edition("a", &Arc::new(Edition::new(id, 1, 1))).is_empty());
        }
        owners.use_edition("a", &oldest);
        assert!(!oldest.is_ended() && owners.ended() == 0);
    }

    #[test]
    fn edition_in_use_after_its_end_goes_on() {
        let owners = StreamOwners::<()>::default();
        let used = |ids: std::ops::Range<u64>| -> Vec<_> {
            let editions: Vec<_> = ids.map(|id| Arc::new(Edition::new(id, 1, 1))).collect();
            editions.iter().for_each(|edition| drop(owners.use_edition("a", edition)));
            editions
        };
        let ended = |editions: &[Arc<Edition>]| editions.iter().filter(|edition| edition.is_ended()).count();
        let first = used(0..300);
        assert_eq!(ended(&first), 44);
        first[0].note_use();
        assert!(!first[0].is_ended() && !owners.ended_editions().contains(&0));
        let later = used(300..600);
        assert_eq!((first[0].is_ended(), ended(&first), ended(&later)), (false, 299, 45), "the bound is as before");
        first.iter().chain(&later).for_each(|edition| edition.note_use());
        let last = used(600..601);
        assert_eq!(ended(&first) + ended(&later), 601 - 256, "however many are in use");
        assert_eq!(ended(&last), 0);
    }

    #[test]
    fn editions_of_variants_have_a_bound_of_their_own() {
        let owners = StreamOwners::<()>::default();
        let own = Arc::new(Edition::new(0, 1, 1));
        owners.use_edition("a", &own);
        let variant = |id: u64| Arc::new(Edition::new(id, 1, 1).of_variant(&format!("team/{}", id % 3)));
        let editions: Vec<_> = (1..300).map(variant).collect();
        editions.iter().for_each(|edition| drop(owners.use_edition("a", edition)));
        let ended = editions.iter().filter(|edition| edition.is_ended()).count();
        assert_eq!((own.is_ended(), ended), (false, 299 - 3 - 255), "that of all variants together");
    }

    /// A proxy loads all of them at an edit of one.
    #[test]
    fn editions_of_many_variants_in_use_go_on() {
        let owners = StreamOwners::<()>::default();
        let of_route = |id: u64| Arc::new(Edition::new(id, 1, 1).of_variant(&format!("https/team/{id}")));
        let routes: Vec<_> = (1..600).map(of_route).collect();
        let mut edits = Vec::new();
        for edit in 0..300_u64 {
            if edit.is_multiple_of(100) {
                routes.iter().for_each(|edition| assert!(owners.use_edition("a", edition).is_empty()));
            }
            edits.push(Arc::new(Edition::new(600 + edit, 1, 1).of_variant("https/team/0")));
            drop(owners.use_edition("a", edits.last().unwrap()));
        }
        assert!(routes.iter().chain(edits.last()).all(|edition| !edition.is_ended()));
        assert_eq!(edits.iter().filter(|edition| edition.is_ended()).count(), 300 - 256);
    }

    /// Tenants edit the policies of their routes, and may keep a stream for each edition.
    #[test]
    fn editions_of_one_namespace_end_none_of_another() {
        for (of_team, of_crowd) in [(1, 1), (1, 64 << 20), (8 << 20, 8 << 20)] {
            let owners = StreamOwners::<()>::default();
            let edition = |id: u64, text: usize, namespace: &str| {
                let variant = format!("{}/{namespace}/{}", if id.is_multiple_of(2) { "*" } else { "https" }, id % 9);
                let edition = Arc::new(Edition::new(id, text, 0).of_variant(&variant));
                drop(owners.use_edition("a", &edition));
                edition
            };
            let team: Vec<_> = (0..3).map(|id| edition(id, of_team, "team")).collect();
            let crowd: Vec<_> = (3..400).map(|id| edition(id, of_crowd, "crowd")).collect();
            let later = edition(400, of_team, "team");
            assert!(team.iter().chain([&later]).all(|edition| !edition.is_ended()), "{of_crowd}");
            assert!(crowd.iter().is_sorted_by_key(|edition| !edition.is_ended()), "the oldest first");
            assert!(crowd[0].is_ended());
        }
    }

    #[test]
    fn loads_of_an_edition_weigh() {
        let owners = StreamOwners::<()>::default();
        let edition = Arc::new(Edition::new(1, 0, 0));
        owners.use_edition("a", &edition);
        let mut loads: Vec<_> = std::iter::from_fn(|| edition.load(1 << 20)).take(1_000).collect();
        assert_eq!(loads.len(), 124, "the next is of another edition");
        loads.pop();
        loads.extend(edition.load(1 << 20));
        assert_eq!(loads.len(), 124, "what is gone makes room");
        let later = Arc::new(Edition::new(2, 32 << 20, 0));
        let newest = Arc::new(Edition::new(3, 0, 0));
        assert!([&later, &newest].iter().all(|one| owners.use_edition("a", one).is_empty()) && !edition.is_ended());
        let _load = later.load(1 << 20);
        owners.use_edition("a", &newest);
        assert!(edition.is_ended() && edition.load(0).is_none(), "the older one ends beyond the bound");
    }

    #[test]
    fn entries_of_policies_weigh() {
        let owners = StreamOwners::<()>::default();
        let editions = [0, 1, 2].map(|id| Arc::new(Edition::new(id, 0, 500_000)));
        editions.iter().for_each(|edition| drop(owners.use_edition("a", edition)));
        assert_eq!(editions.each_ref().map(|edition| edition.is_ended()), [true, false, false]);
    }

    /// The newest one is of the namespace that has most, and has no older ones.
    #[test]
    fn editions_of_ascending_sizes_are_bounded() {
        let owners = StreamOwners::<()>::default();
        let mut editions: Vec<Arc<Edition>> = Vec::new();
        let mut kept = 0;
        for mebibytes in 1..=40_usize {
            let variant = format!("https/team-{mebibytes}/route");
            let newest = Edition::new(mebibytes as u64, mebibytes << 18, 0).of_variant(&variant);
            editions.push(Arc::new(newest));
            drop(owners.use_edition("a", editions.last().unwrap()));
            let alive = (1..).zip(&editions).filter(|(_, edition)| !edition.is_ended());
            kept = alive.map(|(mebibytes, _)| mebibytes).sum::<usize>();
            assert!(kept - mebibytes <= 256, "{kept} MiB with the {mebibytes}. one");
            assert!(!editions.last().unwrap().is_ended());
        }
        assert!(kept > 200, "no more end than have to: {kept}");
    }
}
