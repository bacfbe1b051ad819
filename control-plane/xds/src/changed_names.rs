//! Names of what may be otherwise than before.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Most names that are kept one by one: to look at everything costs little more.
const MAX_NAMED: usize = 2_000;

/// Names of what may be otherwise than it was when they were taken last; what has none of these names is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedNames {
    /// These.
    Named(BTreeSet<Arc<str>>),
    /// All names, whichever there are.
    All,
}

impl Default for ChangedNames {
    /// No name.
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl ChangedNames {
    /// Adds a name. Beyond two thousand of them all count as changed.
    pub fn add<N: AsRef<str> + Into<Arc<str>>>(&mut self, name: N) {
        let Self::Named(names) = self else { return };
        if names.contains(name.as_ref()) {
            return;
        }
        if names.len() >= MAX_NAMED {
            *self = Self::All;
        } else {
            names.insert(name.into());
        }
    }

    /// Adds all names.
    pub fn add_all(&mut self) {
        *self = Self::All;
    }

    /// Adds those of another one.
    pub fn extend(&mut self, other: Self) {
        match other {
            Self::All => self.add_all(),
            Self::Named(names) => names.into_iter().for_each(|name| self.add(name)),
        }
    }

    /// Whether a name is among them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Named(names) => names.contains(name),
            Self::All => true,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Named(names) if names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_all() {
        let mut changed = ChangedNames::default();
        assert!(changed.is_empty() && !changed.has("0"));
        for number in 0..MAX_NAMED {
            changed.add(number.to_string());
            changed.add("0");
        }
        assert!(changed.has("0") && !changed.has("other") && !changed.is_empty());
        let mut other = ChangedNames::default();
        other.add("other");
        changed.extend(other);
        assert_eq!(changed, ChangedNames::All);
        changed.add("more");
        assert!(changed.has("whatever"));
    }
}
