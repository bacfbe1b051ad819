//! Token buckets whose levels are shared data.

use portcullis_core::bucket::{BucketState, SharedBucketState};

use crate::hostcalls::Hostcalls;
use crate::shared_table::{Id, Row, Table, update};

/// One bucket's level.
#[derive(Debug)]
pub(crate) struct SharedBucket<H> {
    pub(crate) host: H,
    pub(crate) id: Id,
}

impl<H: Hostcalls> SharedBucketState for SharedBucket<H> {
    fn change(&self, change: &dyn Fn(Option<BucketState>) -> Option<BucketState>) -> bool {
        update(&self.host, Table::Levels, &self.id, |rows| {
            // A row is (id, tokens, time, nothing).
            let at = rows.iter().position(|row| row.id == self.id);
            let known = at.and_then(|at| rows.get(at)).map(|row| BucketState { tokens: row.a, at: row.b });
            let BucketState { tokens, at: time } = change(known)?;
            let row = Row { id: self.id, a: tokens, b: time, c: 0 };
            match at.and_then(|at| rows.get_mut(at)) {
                Some(known) => *known = row,
                None => rows.push(row),
            }
            Some(())
        })
    }
}
