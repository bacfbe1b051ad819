use std::collections::HashMap;

use super::table_load::LoadPart;

/// The memory of the loads of a cluster's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoadBytes {
    /// Of what only replaced loads have.
    pub(super) past: u64,
    /// Of the newest loads.
    pub(super) present: u64,
}

/// The place of a load among those of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Newest,
    Past,
}

/// The sums of what loads take. An edition counts once, however many loads share it, and with the newest ones if one of these has it.
#[derive(Debug, Default)]
pub(super) struct KeptBytes {
    editions: HashMap<u64, EditionUse>,
    sums: LoadBytes,
}

#[derive(Clone, Copy, Debug, Default)]
struct EditionUse {
    bytes: u64,
    /// Newest loads that have it.
    newest: usize,
    /// Replaced ones that have it.
    past: usize,
}

impl LoadBytes {
    pub(super) fn add(&mut self, other: LoadBytes) {
        self.past = self.past.saturating_add(other.past);
        self.present = self.present.saturating_add(other.present);
    }

    pub(super) fn subtract(&mut self, other: LoadBytes) {
        self.past = self.past.saturating_sub(other.past);
        self.present = self.present.saturating_sub(other.present);
    }
}

impl EditionUse {
    fn counted(self) -> LoadBytes {
        match (self.newest, self.past) {
            (0, 0) => LoadBytes::default(),
            (0, _) => LoadBytes { past: self.bytes, present: 0 },
            _ => LoadBytes { past: 0, present: self.bytes },
        }
    }

    fn number(&mut self, standing: Standing) -> &mut usize {
        match standing {
            Standing::Newest => &mut self.newest,
            Standing::Past => &mut self.past,
        }
    }
}

impl KeptBytes {
    pub(super) fn sums(&self) -> LoadBytes {
        self.sums
    }

    /// Counts the parts of a load.
    pub(super) fn add(&mut self, parts: &[LoadPart], standing: Standing) {
        for part in parts {
            self.sums.add(routes(part, standing));
            let new = EditionUse { bytes: part.edition_bytes, ..EditionUse::default() };
            let edition = self.editions.entry(part.edition).or_insert(new);
            self.sums.subtract(edition.counted());
            let number = edition.number(standing);
            *number = number.saturating_add(1);
            self.sums.add(edition.counted());
        }
    }

    /// Counts them no longer.
    pub(super) fn remove(&mut self, parts: &[LoadPart], standing: Standing) {
        for part in parts {
            self.sums.subtract(routes(part, standing));
            let Some(edition) = self.editions.get_mut(&part.edition) else { continue };
            self.sums.subtract(edition.counted());
            let number = edition.number(standing);
            *number = number.saturating_sub(1);
            self.sums.add(edition.counted());
            if (edition.newest, edition.past) == (0, 0) {
                self.editions.remove(&part.edition);
            }
        }
    }
}

fn routes(part: &LoadPart, standing: Standing) -> LoadBytes {
    match standing {
        Standing::Newest => LoadBytes { past: 0, present: part.route_bytes },
        Standing::Past => LoadBytes { past: part.route_bytes, present: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edition_counts_once_and_with_the_newest_load() {
        let part = |edition| LoadPart { id: 0, edition, edition_bytes: 100, route_bytes: 1 };
        let (first, second) = ([part(1), part(2)], [part(1), part(3)]);
        let mut bytes = KeptBytes::default();
        let sums = |bytes: &KeptBytes| (bytes.sums().past, bytes.sums().present);
        bytes.add(&first, Standing::Past);
        bytes.add(&first, Standing::Past);
        assert_eq!(sums(&bytes), (204, 0));
        bytes.add(&second, Standing::Newest);
        assert_eq!(sums(&bytes), (104, 202), "the first edition is in use");
        bytes.remove(&first, Standing::Past);
        assert_eq!(sums(&bytes), (102, 202));
        bytes.remove(&second, Standing::Newest);
        bytes.add(&second, Standing::Past);
        assert_eq!(sums(&bytes), (304, 0));
        bytes.remove(&first, Standing::Past);
        bytes.remove(&second, Standing::Past);
        assert_eq!((sums(&bytes), bytes.editions.len()), ((0, 0), 0));
    }
}
