use std::collections::BTreeMap;

use crate::Resource;

/// Most of them; the oldest goes first.
const MOST: usize = 1_000;

/// Clusters as snapshots before this one held them. In the state of the world what is not told is gone, so a control plane
/// that is to remove a cluster after the routes that name it has to tell it once more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retired {
    next: u64,
    /// By name and number, which grows.
    editions: BTreeMap<(String, u64), Resource>,
}

/// What was before makes no snapshot another one.
impl PartialEq for Retired {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Retired {}

impl Retired {
    /// Those of a snapshot that comes after this one.
    pub(crate) fn succeeded_by(
        &self,
        before: Option<&BTreeMap<String, Resource>>,
        after: Option<&BTreeMap<String, Resource>>,
    ) -> Self {
        let mut retired = self.clone();
        let stays = |(name, resource): &(&String, &Resource)| {
            after.and_then(|after| after.get(*name)).is_some_and(|now| now.version() == resource.version())
        };
        for (name, resource) in before.into_iter().flatten().filter(|one| !stays(one)) {
            retired.editions.retain(|(other, _), edition| other != name || edition.version() != resource.version());
            retired.editions.insert((name.clone(), retired.next), resource.clone());
            retired.next += 1;
        }
        let excess = retired.editions.len().saturating_sub(MOST);
        if excess > 0 {
            let mut numbers: Vec<u64> = retired.editions.keys().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            let oldest = numbers.get(excess).copied().unwrap_or_default();
            retired.editions.retain(|(_, number), _| *number >= oldest);
        }
        retired
    }

    /// By name, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Resource)> {
        self.editions.iter().rev().map(|((name, _), resource)| (name, resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: impl IntoIterator<Item = usize>, content: u8) -> BTreeMap<String, Resource> {
        names.into_iter().map(|name| (format!("c{name:05}"), Resource::new(vec![content]))).collect()
    }

    fn shown(retired: &Retired) -> Vec<String> {
        retired
            .iter()
            .map(|(name, one)| format!("{name}={}", one.body().first().copied().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn the_last_editions_that_went_are_remembered() {
        let one = Retired::default().succeeded_by(Some(&set(0..2, 1)), Some(&set(1..2, 2)));
        assert_eq!(shown(&one), ["c00001=1", "c00000=1"]);
        let two = one.succeeded_by(Some(&set(1..2, 2)), None);
        assert_eq!(shown(&two), ["c00001=2", "c00001=1", "c00000=1"]);
        let again = two.succeeded_by(Some(&set(1..2, 1)), None);
        assert_eq!(shown(&again), ["c00001=1", "c00001=2", "c00000=1"], "each once, as it went last");
        let many = again.succeeded_by(Some(&set(10..10 + MOST, 1)), None);
        assert_eq!(many.iter().count(), MOST);
        assert!(!shown(&many).contains(&"c00000=1".to_owned()));
    }
}
