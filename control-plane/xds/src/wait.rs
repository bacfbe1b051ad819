use std::collections::BTreeSet;

/// Whose resources have to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing waits.
    #[default]
    Nobody,
    /// Those of these owners, and what is nobody's.
    Owners(BTreeSet<String>),
    /// Everything waits.
    Everybody,
}

impl Wait {
    /// Because of a resource of this owner; what is nobody's may be referred to by everybody.
    pub(crate) fn for_owner(owner: Option<&str>) -> Self {
        owner.map_or(Self::Everybody, |owner| Self::Owners(BTreeSet::from([owner.to_owned()])))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everybody, _) | (_, Self::Everybody) => Self::Everybody,
            (Self::Nobody, other) | (other, Self::Nobody) => other,
            (Self::Owners(mut one), Self::Owners(other)) => {
                one.extend(other);
                Self::Owners(one)
            }
        }
    }

    /// Whether a resource of this owner need not wait.
    pub(crate) fn lets(&self, owner: Option<&str>) -> bool {
        match self {
            Self::Nobody => true,
            Self::Owners(owners) => owner.is_some_and(|owner| !owners.contains(owner)),
            Self::Everybody => false,
        }
    }
}
