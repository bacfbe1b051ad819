use std::collections::BTreeSet;

/// The owners whose resources have to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Nothing waits.
    #[default]
    None,
    /// Resources of these owners wait, and those without an owner.
    Owners(BTreeSet<String>),
    /// Resources of these owners wait, and none without an owner.
    OwnersAlone(BTreeSet<String>),
    /// Everything waits.
    All,
}

impl Blocked {
    /// Blocked because of resources of these owners; resources of all owners may refer to one without an owner.
    pub(super) fn for_owners<'a>(all: impl Iterator<Item = Option<&'a str>>) -> Self {
        let mut owners = BTreeSet::new();
        for owner in all {
            match owner {
                None => return Self::All,
                Some(owner) if owners.contains(owner) => {}
                Some(owner) => drop(owners.insert(owner.to_owned())),
            }
        }
        if owners.is_empty() { Self::None } else { Self::Owners(owners) }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) | (other, Self::None) => other,
            (Self::OwnersAlone(mut one), Self::OwnersAlone(other)) => {
                one.extend(other);
                Self::OwnersAlone(one)
            }
            (Self::Owners(mut one), Self::Owners(other) | Self::OwnersAlone(other))
            | (Self::OwnersAlone(other), Self::Owners(mut one)) => {
                one.extend(other);
                Self::Owners(one)
            }
        }
    }

    /// Whether a resource of this owner need not wait.
    pub(super) fn allows(&self, owner: Option<&str>) -> bool {
        match self {
            Self::None => true,
            Self::Owners(owners) => owner.is_some_and(|owner| !owners.contains(owner)),
            Self::OwnersAlone(owners) => owner.is_none_or(|owner| !owners.contains(owner)),
            Self::All => false,
        }
    }
}

/// The resources of one type that have to wait.
#[derive(Clone, Debug)]
pub(super) struct SendGates {
    pub(super) updates: Blocked,
    pub(super) removals: Blocked,
}

impl SendGates {
    pub(super) const CLOSED: Self = Self { updates: Blocked::All, removals: Blocked::All };
}
