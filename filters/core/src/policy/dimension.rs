/// The attributes of a request that a rule can constrain. The order is the one in which a clause's conditions are checked: the
/// most selective comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dimension {
    User,
    UserGroup,
    ResourceName,
    Namespace,
    Path,
    Resource,
    Verb,
    ApiGroup,
    ApiVersion,
}

impl Dimension {
    pub(super) const COUNT: usize = 9;

    /// In the order of their indices.
    pub(super) const ALL: [Dimension; Dimension::COUNT] = [
        Dimension::User,
        Dimension::UserGroup,
        Dimension::ResourceName,
        Dimension::Namespace,
        Dimension::Path,
        Dimension::Resource,
        Dimension::Verb,
        Dimension::ApiGroup,
        Dimension::ApiVersion,
    ];

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// A set of dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dimensions(u16);

impl Dimensions {
    pub(super) const NONE: Dimensions = Dimensions(0);

    #[must_use]
    pub(super) const fn with(self, dimension: Dimension) -> Self {
        Dimensions(self.0 | 1 << dimension.index())
    }

    pub(super) const fn contains(self, dimension: Dimension) -> bool {
        self.0 & 1 << dimension.index() != 0
    }

    /// Those that are not in `others`.
    #[must_use]
    pub(super) const fn without(self, others: Dimensions) -> Self {
        Dimensions(self.0 & !others.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Counts here are bounded by the configuration's size, far below 2^32.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
