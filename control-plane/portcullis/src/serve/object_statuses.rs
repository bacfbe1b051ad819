//! The statuses of all objects, and how they follow those before.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use portcullis_api::CLUSTER_KIND;
use portcullis_api::status::Condition;
use portcullis_translate::Diagnosis;
use portcullis_xds::ChangedNames;
use serde::{Serialize, Serializer};

use super::list_origins::origins;
use super::object_status::ObjectStatus;

#[cfg(test)]
mod tests;

/// The statuses of all objects, in the order of their diagnoses. One that is as it was is the same allocation.
#[derive(Debug, Default)]
pub(crate) struct ObjectStatuses {
    list: Vec<Arc<ObjectStatus>>,
    /// The places in the list in the order of names.
    by_name: Arc<Vec<usize>>,
}

/// Conditions that another replica wrote: by kind, name and UID.
pub(super) type WrittenConditions = BTreeMap<(String, String, String), Vec<Condition>>;

/// The difference of the inputs of statuses that follow each other.
pub(super) struct ChangedInputs<'a> {
    /// The diagnoses before.
    pub(super) before: &'a Arc<Vec<Arc<Diagnosis>>>,
    /// Those now.
    pub(super) after: &'a Arc<Vec<Arc<Diagnosis>>>,
    /// Names of objects of which another input may be another one.
    pub(super) names: &'a ChangedNames,
    /// Conditions that count as those that the objects had. Of objects that share kind, name and UID, the first has them.
    pub(super) written: &'a WrittenConditions,
}

impl ObjectStatuses {
    /// Statuses in this order.
    pub(crate) fn new(list: Vec<Arc<ObjectStatus>>) -> Self {
        let by_name = Arc::new(places_by_name(list.len(), |place| list.get(place).map(|one| &*one.diagnosis.name)));
        Self { list, by_name }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Arc<ObjectStatus>> {
        self.list.iter()
    }

    /// Those of a name, in their order.
    pub(crate) fn named(&self, name: &str) -> impl DoubleEndedIterator<Item = &ObjectStatus> {
        let places = places_of(&self.by_name, name, |place| Some(&*self.list.get(place)?.diagnosis.name));
        places.iter().filter_map(|place| self.list.get(*place)).map(AsRef::as_ref)
    }

    /// The status of the `UpstreamCluster` of a name: of those that share it, the one that is served.
    pub(crate) fn cluster(&self, name: &str) -> Option<&ObjectStatus> {
        let mut clusters = self.named(name).filter(|one| one.diagnosis.kind == CLUSTER_KIND);
        let first = clusters.next()?;
        Some(clusters.rfind(|one| one.diagnosis.accepted).unwrap_or(first))
    }

    /// The names of those that are other ones than before, or gone.
    pub(crate) fn changed_names<'a>(&'a self, before: &'a Self) -> BTreeSet<&'a str> {
        let origins = origins(&before.list, &self.list);
        let mut gone = vec![true; before.list.len()];
        for place in origins.iter().flatten() {
            gone.get_mut(*place).into_iter().for_each(|gone| *gone = false);
        }
        let new = self.list.iter().zip(&origins).filter(|(_, origin)| origin.is_none()).map(|(one, _)| one);
        let gone = before.list.iter().zip(gone).filter(|(_, gone)| *gone).map(|(one, _)| one);
        new.chain(gone).map(|one| one.diagnosis.name.as_str()).collect()
    }

    /// The statuses after a change. `make` makes that of a diagnosis with the conditions that its object had; it is asked for those
    /// of which an input may be another one.
    pub(super) fn follow(
        self: &Arc<Self>,
        changed: &ChangedInputs<'_>,
        mut make: impl FnMut(&Arc<Diagnosis>, &[Condition]) -> ObjectStatus,
    ) -> Arc<Self> {
        let ChangedInputs { before, after, names, written } = changed;
        if Arc::ptr_eq(before, after) && names.is_empty() && written.is_empty() {
            return Arc::clone(self);
        }
        let origins = origins(before, after);
        let formers = formers(before, after, &origins);
        let is_in_place = formers.iter().enumerate().all(|(place, former)| *former == Some(place));
        let has_same_names = is_in_place && before.len() == after.len();
        let name = |place: usize| after.get(place).map(|one: &Arc<Diagnosis>| one.name.as_str());
        let by_name =
            if has_same_names { Arc::clone(&self.by_name) } else { Arc::new(places_by_name(after.len(), name)) };
        let mut is_due: Vec<bool> = origins.iter().map(Option::is_none).collect();
        let mut written_at: HashMap<usize, &[Condition]> = HashMap::new();
        for ((kind, name_of, uid), conditions) in *written {
            let is_it = |one: &Arc<Diagnosis>| {
                one.kind == *kind && one.version.uid.as_deref().unwrap_or_default() == uid.as_str()
            };
            let mut places = places_of(&by_name, name_of, name).iter().copied();
            let first = places.find(|place| after.get(*place).is_some_and(is_it));
            written_at.extend(first.map(|place| (place, conditions.as_slice())));
        }
        let named = match names {
            ChangedNames::Named(names) => {
                names.iter().flat_map(|one| places_of(&by_name, one, name)).copied().collect()
            }
            ChangedNames::All => (0..after.len()).collect::<Vec<_>>(),
        };
        for place in named.into_iter().chain(written_at.keys().copied()) {
            is_due.get_mut(place).into_iter().for_each(|is_due| *is_due = true);
        }
        let mut is_other = !has_same_names;
        let mut list = Vec::with_capacity(after.len());
        for (place, ((diagnosis, former), is_due)) in after.iter().zip(formers).zip(is_due).enumerate() {
            let former = former.and_then(|former| self.list.get(former));
            let status = match former {
                Some(former) if !is_due => Arc::clone(former),
                _ => {
                    let had = former.map(|former| former.status.conditions.as_slice());
                    let made = make(diagnosis, written_at.get(&place).copied().or(had).unwrap_or_default());
                    let same = former.filter(|former| ***former == made).cloned();
                    is_other |= same.is_none();
                    same.unwrap_or_else(|| Arc::new(made))
                }
            };
            list.push(status);
        }
        if is_other { Arc::new(Self { list, by_name }) } else { Arc::clone(self) }
    }
}

impl Serialize for ObjectStatuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().map(AsRef::as_ref))
    }
}

/// For each diagnosis the place of the one before of the same object: the same allocation, or else that of the same kind, name and UID. Of
/// those that share all three, the first follows the first.
fn formers(before: &[Arc<Diagnosis>], after: &[Arc<Diagnosis>], origins: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut formers = origins.to_vec();
    if origins.iter().all(Option::is_some) {
        return formers;
    }
    let mut is_free = vec![true; before.len()];
    for place in origins.iter().flatten() {
        is_free.get_mut(*place).into_iter().for_each(|is_free| *is_free = false);
    }
    let mut free: HashMap<(&str, &str, &str), VecDeque<usize>> = HashMap::new();
    for (place, (one, _)) in before.iter().zip(is_free).enumerate().filter(|(_, (_, is_free))| *is_free) {
        free.entry(key(one)).or_default().push_back(place);
    }
    for (former, one) in formers.iter_mut().zip(after).filter(|(former, _)| former.is_none()) {
        *former = free.get_mut(&key(one)).and_then(VecDeque::pop_front);
    }
    formers
}

fn key(diagnosis: &Diagnosis) -> (&str, &str, &str) {
    (&diagnosis.kind, &diagnosis.name, diagnosis.version.uid.as_deref().unwrap_or_default())
}

/// All places of a list in the order of names; of one name in the order of the list.
fn places_by_name<'a>(count: usize, name: impl Fn(usize) -> Option<&'a str>) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|place| name(*place));
    places
}

/// The places of a name.
fn places_of<'p, 'a>(places: &'p [usize], of: &str, name: impl Fn(usize) -> Option<&'a str>) -> &'p [usize] {
    let begin = places.partition_point(|place| name(*place) < Some(of));
    let end = places.partition_point(|place| name(*place) <= Some(of));
    places.get(begin..end).unwrap_or_default()
}
