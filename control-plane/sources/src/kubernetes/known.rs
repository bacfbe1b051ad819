use std::collections::BTreeMap;

use kube::runtime::watcher::Event;

/// Objects of one kind by name. Until a list is complete, what was known before holds.
pub(super) struct Known<T> {
    pub(super) current: BTreeMap<String, T>,
    coming: BTreeMap<String, T>,
    pub(super) is_complete: bool,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), coming: BTreeMap::new(), is_complete: false }
    }
}

impl<T> Known<T> {
    /// Takes an event of a watch. Returns whether something may have changed: `is_same` compares an object with the one of its
    /// name before.
    pub(super) fn apply(&mut self, event: Event<(String, T)>, is_same: impl Fn(&T, &T) -> bool) -> bool {
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply((name, object)) => {
                self.coming.insert(name, object);
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.coming);
                self.is_complete = true;
                return true;
            }
            Event::Apply((name, object)) => {
                let is_known = self.current.get(&name).is_some_and(|before| is_same(before, &object));
                self.current.insert(name, object);
                return !is_known;
            }
            Event::Delete((name, _)) => return self.current.remove(&name).is_some(),
        }
        false
    }

    /// Begins anew: what is known holds until a list is complete.
    pub(super) fn begin(&mut self) {
        self.coming.clear();
        self.is_complete = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<T>(known: &Known<T>) -> String {
        known.current.keys().cloned().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn list_acts_when_it_is_complete_and_as_a_whole() {
        let mut known = Known::default();
        let one = |name: &str| (name.to_owned(), ());
        let steps = [
            (Event::Init, "", false),
            (Event::InitApply(one("a")), "", false),
            (Event::InitApply(one("b")), "", false),
            (Event::InitDone, "a b", true),
            (Event::Apply(one("c")), "a b c", true),
            (Event::Delete(one("a")), "b c", true),
            (Event::Init, "b c", true),
            (Event::InitApply(one("d")), "b c", true),
            // A list that broke off starts anew.
            (Event::Init, "b c", true),
            (Event::InitApply(one("c")), "b c", true),
            (Event::InitDone, "c", true),
        ];
        for (number, (event, current, is_complete)) in steps.into_iter().enumerate() {
            known.apply(event, |(), ()| false);
            assert_eq!((names(&known).as_str(), known.is_complete), (current, is_complete), "step {number}");
        }
    }
}
