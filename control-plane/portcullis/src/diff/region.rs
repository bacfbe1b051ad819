use super::atoms::AtomSet;

/// The attributes of a request that rules and access lists look at. The most selective come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    User,
    Name,
    Namespace,
    Path,
    Resource,
    Verb,
    ApiGroup,
    ApiVersion,
    Address,
    UserAgent,
}

impl Axis {
    pub(super) const COUNT: usize = 10;
    pub(super) const ALL: [Axis; Axis::COUNT] = [
        Axis::User,
        Axis::Name,
        Axis::Namespace,
        Axis::Path,
        Axis::Resource,
        Axis::Verb,
        Axis::ApiGroup,
        Axis::ApiVersion,
        Axis::Address,
        Axis::UserAgent,
    ];
}

/// Whether a user is a member of a group.
pub(super) type Membership = (u32, bool);

/// A part of all requests: on each axis some atoms, and of some groups whether the user is a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    axes: [AtomSet; Axis::COUNT],
    /// By group, ascending.
    groups: Vec<Membership>,
}

/// A condition of a region that not all requests of another one meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenPart {
    Axis(Axis),
    Group(Membership),
}

impl Region {
    /// `None` if it is empty: on an axis, or by a group.
    pub(super) fn new(axes: [AtomSet; Axis::COUNT], mut groups: Vec<Membership>) -> Option<Self> {
        groups.sort_unstable();
        groups.dedup();
        let is_contradiction = groups.iter().zip(groups.iter().skip(1)).any(|(one, next)| one.0 == next.0);
        let is_empty = axes.iter().any(AtomSet::is_empty) || is_contradiction;
        (!is_empty).then_some(Region { axes, groups })
    }

    pub(super) fn axis(&self, axis: Axis) -> &AtomSet {
        static NONE: AtomSet = AtomSet::EMPTY;
        self.axes.get(axis as usize).unwrap_or(&NONE)
    }

    pub(super) fn groups(&self) -> &[Membership] {
        &self.groups
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        self.axes.iter().zip(&other.axes).all(|(one, two)| one.intersects(two))
            && (other.groups.is_empty() || self.agrees(&other.groups))
    }

    fn agrees(&self, groups: &[Membership]) -> bool {
        groups.iter().all(|(group, is_member)| self.membership(*group).is_none_or(|known| known == *is_member))
    }

    /// Whether its users are members; `None` if some are and others are not.
    pub(super) fn membership(&self, group: u32) -> Option<bool> {
        let at = self.groups.binary_search_by_key(&group, |(group, _)| *group).ok()?;
        self.groups.get(at).map(|(_, is_member)| *is_member)
    }

    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.intersects(other) {
            return None;
        }
        let mut both = self.clone();
        for (one, two) in both.axes.iter_mut().zip(&other.axes) {
            if !one.is_within(two) {
                *one = one.intersection(two);
            }
        }
        if !other.groups.is_empty() {
            both.groups.extend(&other.groups);
            both.groups.sort_unstable();
            both.groups.dedup();
        }
        Some(both)
    }

    /// The conditions of `other` that not all requests here meet.
    pub(super) fn open_parts(&self, other: &Self) -> Vec<OpenPart> {
        let axes = Axis::ALL.into_iter().filter(|axis| !self.axis(*axis).is_within(other.axis(*axis)));
        let groups = other.groups.iter().filter(|(group, _)| self.membership(*group).is_none());
        groups.map(|membership| OpenPart::Group(*membership)).chain(axes.map(OpenPart::Axis)).collect()
    }

    /// The requests that do not meet a condition of `other`, which is open here.
    pub(super) fn exclude(&mut self, other: &Self, part: OpenPart) {
        match part {
            OpenPart::Axis(axis) => self.set(axis, self.axis(axis).without(other.axis(axis))),
            OpenPart::Group((group, is_member)) => self.decide((group, !is_member)),
        }
    }

    /// The requests that meet it.
    pub(super) fn demand(&mut self, other: &Self, part: OpenPart) {
        match part {
            OpenPart::Axis(axis) => self.set(axis, self.axis(axis).intersection(other.axis(axis))),
            OpenPart::Group(membership) => self.decide(membership),
        }
    }

    pub(super) fn set(&mut self, axis: Axis, atoms: AtomSet) {
        if let Some(place) = self.axes.get_mut(axis as usize) {
            *place = atoms;
        }
    }

    pub(super) fn decide(&mut self, membership: Membership) {
        if let Err(at) = self.groups.binary_search_by_key(&membership.0, |(group, _)| *group) {
            self.groups.insert(at, membership);
        }
    }
}
