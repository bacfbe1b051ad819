//! Puts the clauses of a node below the values on which it splits.

use std::ops::Range;

use super::dimension::{Dimension, count};
use super::items::{Item, KnownClauses};
use super::leaves::{Candidate, Leaves};

/// Below this many clauses a linear scan beats another split.
pub(super) const LEAF: usize = 32;

/// The items of a node, dealt.
#[derive(Debug)]
pub(super) struct Dealt {
    pub(super) below: Vec<Below>,
    /// The items that want no value there.
    pub(super) others: Vec<Item>,
}

/// The items below a value, in the order of their clauses, up to the first that certainly holds.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) value: u32,
    /// Number of the items.
    count: usize,
    /// Number of the items that are still to come.
    left: usize,
    is_closed: bool,
    /// Start among the leaves' candidates, if they are few.
    start: usize,
    /// The items themselves, otherwise.
    pub(super) items: Vec<Item>,
}

/// An item with what all its copies share.
struct Copied<'c> {
    values: &'c [u32],
    item: Item,
    candidate: Candidate,
}

/// Deals items, with the number of each value's list, from 1.
#[derive(Debug, Default)]
pub(super) struct Dealer {
    places: Vec<u32>,
}

impl Dealer {
    /// Puts each item below the values that it wants. Those below a value that has few go to the end of `leaves` at once.
    pub(super) fn deal(
        &mut self,
        known: &KnownClauses<'_>,
        items: &[Item],
        dimension: Dimension,
        leaves: &mut Leaves,
    ) -> Dealt {
        let mut dealt = Dealt { below: Vec::new(), others: Vec::new() };
        let mut copied = Vec::with_capacity(items.len());
        for item in items {
            let values = known.values(*item, dimension);
            if values.is_empty() {
                dealt.others.push(*item);
                continue;
            }
            let item = item.below(dimension, values.len());
            let is_certain = known.is_certain(item);
            for value in values {
                let list = self.list(*value, &mut dealt.below);
                dealt.below.get_mut(list).into_iter().for_each(|below| below.count(is_certain));
            }
            copied.push(Copied { values, item, candidate: known.candidate(item) });
        }
        make_room(&mut dealt.below, leaves);
        for copied in &copied {
            for value in copied.values {
                let list = self.list(*value, &mut dealt.below);
                dealt.below.get_mut(list).into_iter().for_each(|below| below.add(copied, leaves));
            }
        }
        for below in &dealt.below {
            self.places.get_mut(below.value as usize).into_iter().for_each(|place| *place = 0);
        }
        dealt
    }

    /// The number of the value's list.
    fn list(&mut self, value: u32, lists: &mut Vec<Below>) -> usize {
        let known = self.places.get(value as usize).and_then(|place| place.checked_sub(1));
        known.map_or_else(|| self.new_list(value, lists), |number| number as usize)
    }

    #[cold]
    fn new_list(&mut self, value: u32, lists: &mut Vec<Below>) -> usize {
        let (at, number) = (value as usize, lists.len());
        if self.places.len() <= at {
            self.places.resize(at.saturating_add(1), 0);
        }
        self.places.get_mut(at).into_iter().for_each(|place| *place = count(number).saturating_add(1));
        lists.push(Below::new(value));
        number
    }
}

/// Gives each leaf its places behind the others', and each list its memory.
fn make_room(lists: &mut [Below], leaves: &mut Leaves) {
    let mut end = leaves.len();
    for below in lists {
        below.left = below.count;
        if below.is_leaf() {
            below.start = end;
            end = end.saturating_add(below.count);
        } else {
            below.items.reserve_exact(below.count);
        }
    }
    leaves.extend_to(end);
}

impl Below {
    fn new(value: u32) -> Self {
        Below { value, count: 0, left: 0, is_closed: false, start: 0, items: Vec::new() }
    }

    /// Whether the items are few enough for a leaf.
    pub(super) fn is_leaf(&self) -> bool {
        self.count <= LEAF
    }

    /// The places of a leaf's candidates.
    pub(super) fn candidates(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.count)
    }

    fn count(&mut self, is_certain: bool) {
        if !self.is_closed {
            self.count = self.count.saturating_add(1);
            self.is_closed = is_certain;
        }
    }

    fn add(&mut self, copied: &Copied<'_>, leaves: &mut Leaves) {
        let Some(left) = self.left.checked_sub(1) else { return };
        let at = self.count.saturating_sub(self.left);
        self.left = left;
        if !self.is_leaf() {
            self.items.push(copied.item);
        } else {
            leaves.put(self.start.saturating_add(at), copied.candidate);
        }
    }
}
