use std::collections::BTreeSet;

/// Whose resources have to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing waits.
    #[default]
    None,
    /// Those of these owners, and what is nobody's.
    Owners(BTreeSet<String>),
    /// Everything waits.
    All,
}

impl Blocked {
    /// Because of a resource of this owner; what is nobody's may be referred to by everybody.
    pub(crate) fn for_owner(owner: Option<&str>) -> Self {
        owner.map_or(Self::All, |owner| Self::Owners(BTreeSet::from([owner.to_owned()])))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) | (other, Self::None) => other,
            (Self::Owners(mut one), Self::Owners(other)) => {
                one.extend(other);
                Self::Owners(one)
            }
        }
    }

    /// Whether a resource of this owner need not wait.
    pub(crate) fn allows(&self, owner: Option<&str>) -> bool {
        match self {
            Self::None => true,
            Self::Owners(owners) => owner.is_some_and(|owner| !owners.contains(owner)),
            Self::All => false,
        }
    }
}
