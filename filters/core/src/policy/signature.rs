use super::dimension::Dimension;

/// A summary of ids in eight bytes, each for one dimension or two: most clauses that do not match a request are excluded by one
/// comparison, without reading them. Dimensions may share a byte: then it excludes fewer clauses, and never one that matches.
///
/// Seven bits of a byte represent ids. The eighth is always set in a request's signature, and in a clause's if it wants no
/// particular value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature(u64);

const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

impl Signature {
    /// A clause without wanted values, or a request without known ids.
    pub(super) const NONE: Signature = Signature(HIGHEST);

    /// Adds the ids of a request.
    pub(super) fn add(&mut self, dimension: Dimension, ids: &[u32]) {
        self.0 |= bits(ids) << shift(dimension);
    }

    /// Adds ids of which a clause wants one.
    pub(super) fn want(&mut self, dimension: Dimension, ids: &[u32]) {
        self.0 &= !(0x80 << shift(dimension));
        self.add(dimension, ids);
    }

    /// Whether a request with this signature may meet a clause. Never wrongly false.
    pub(super) fn may_meet(self, wanted: Signature) -> bool {
        let common = self.0 & wanted.0;
        // Set bits are left where a byte is zero.
        common.wrapping_sub(LOWEST) & !common & HIGHEST == 0
    }
}

fn bits(ids: &[u32]) -> u64 {
    ids.iter().fold(0, |bits, id| bits | 1 << (id % 7))
}

/// A request is for a path or a resource, so these share a byte.
const fn shift(dimension: Dimension) -> u32 {
    8 * match dimension {
        Dimension::User => 0,
        Dimension::UserGroup => 1,
        Dimension::ResourceName => 2,
        Dimension::Namespace => 3,
        Dimension::Path | Dimension::Resource => 4,
        Dimension::Verb => 5,
        Dimension::ApiGroup => 6,
        Dimension::ApiVersion => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_request(dimension: Dimension, ids: &[u32]) -> Signature {
        let mut signature = Signature::NONE;
        signature.add(dimension, ids);
        signature
    }

    fn wanted(dimension: Dimension, ids: &[u32]) -> Signature {
        let mut signature = Signature::NONE;
        signature.want(dimension, ids);
        signature
    }

    #[test]
    fn signature_of_a_request_meets_that_of_its_rule() {
        for dimension in Dimension::ALL {
            assert!(of_request(dimension, &[3]).may_meet(Signature::NONE));
            assert!(of_request(dimension, &[3, 9]).may_meet(wanted(dimension, &[8, 9])));
            assert!(!of_request(dimension, &[3]).may_meet(wanted(dimension, &[4, 5])), "{dimension:?}");
            assert!(!Signature::NONE.may_meet(wanted(dimension, &[4])), "{dimension:?}");
        }
        assert!(Signature::NONE.may_meet(Signature::NONE));
    }

    #[test]
    fn every_dimension_counts() {
        let mut clause = wanted(Dimension::User, &[1]);
        clause.want(Dimension::Verb, &[2]);
        let mut request = of_request(Dimension::User, &[1]);
        assert!(!request.may_meet(clause));
        request.add(Dimension::Verb, &[2]);
        assert!(request.may_meet(clause));
    }
}
