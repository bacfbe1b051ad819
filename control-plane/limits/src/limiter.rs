//! All limits, and the processes that report the use of their parts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use portcullis_filter_config::GlobalLimit;
use portcullis_filter_config::limits::PartUse;

use crate::holder::{Holder, HolderId};
use crate::holdings::RESERVED_FOR;
use crate::owners::{GuestName, MAX_GUESTS, MAX_HOLDERS_OF_GUEST, NodeOwners};
use crate::shares::{LimitAnswer, Shares};

/// Most processes of the fleet at a time.
const MAX_HOLDERS: usize = 4_096;
/// Most processes of one node at a time: the present one, and those that it ran before within [`RESERVED_FOR`].
const MAX_HOLDERS_OF_NODE: usize = 4;

/// The reason that a report gets no answer. The local limits hold in that process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HolderRefusal {
    /// A newer report of the process came before. No fault: the newer one is answered.
    #[error("a newer report of the process was answered")]
    Old,
    /// The node or its owner has too many processes, or there are too many owners. The fault of these; to be tried again after
    /// [`RESERVED_FOR`].
    #[error("too many processes report parts of limits")]
    TooMany,
}

/// Divides limits among gateways. No other may do so at the same time: before another is made, this one has to
/// have answered for the last time.
#[derive(Debug, Default)]
pub struct Limiter {
    /// By the name under which a cluster counts, then by schema.
    pub(crate) clusters: HashMap<String, HashMap<String, Shares>>,
    /// By node and number of the process.
    pub(crate) holders: BTreeMap<String, Vec<Process>>,
    owners: NodeOwners,
    /// The processes that belong to guests, and the number of them by guest.
    pub(crate) guests: BTreeMap<HolderId, GuestName>,
    of_guests: BTreeMap<GuestName, usize>,
    pub(crate) next: u64,
    /// The number of all processes.
    count: usize,
    pub(crate) swept: Duration,
}

/// A process that reports the use of its parts.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its own number, which it chose.
    pub(crate) process: u64,
    pub(crate) id: HolderId,
    /// The newest report.
    pub(crate) number: u64,
    pub(crate) last: Duration,
}

impl Limiter {
    /// A limiter without limits, of processes that all belong to the fleet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A limiter without limits, of processes with these owners.
    pub fn of_owners(owners: NodeOwners) -> Self {
        Self { owners, ..Self::default() }
    }

    /// Takes the limits of all objects: by the name under which a cluster counts, then by schema. Limits that stay keep their
    /// parts. New ones first renew what gateways say that they have, for [`RESERVED_FOR`] after `now`. The first call of a limiter may
    /// be given the earlier time at which the limiter before it answered for the last time.
    pub fn configure(&mut self, limits: &BTreeMap<String, BTreeMap<String, GlobalLimit>>, now: Duration) {
        self.clusters.retain(|cluster, _| limits.contains_key(cluster));
        for (cluster, known) in &mut self.clusters {
            known.retain(|schema, _| limits.get(cluster).is_some_and(|schemas| schemas.contains_key(schema)));
        }
        limits.iter().for_each(|(cluster, schemas)| self.configure_cluster(cluster, schemas, now));
    }

    /// Takes the limits of one object as one of several control planes has it. Limits that another one has in it go on until no
    /// process reports them any more.
    pub fn configure_cluster(&mut self, cluster: &str, schemas: &BTreeMap<String, GlobalLimit>, now: Duration) {
        let known = self.clusters.entry(cluster.to_owned()).or_default();
        known.retain(|schema, shares| schemas.contains_key(schema) || !shares.has_ended(now));
        for (schema, limit) in schemas {
            match known.get_mut(schema) {
                Some(shares) => shares.replace(*limit, now),
                None => drop(known.insert(schema.clone(), Shares::new(*limit, now))),
            }
        }
    }

    /// Begins with the report of a process.
    ///
    /// # Errors
    /// [`HolderRefusal`].
    pub fn holder(&mut self, node: &str, process: u64, number: u64, now: Duration) -> Result<Holder, HolderRefusal> {
        self.sweep(now);
        let known = self.holders.get_mut(node).and_then(|all| all.iter_mut().find(|one| one.process == process));
        if let Some(holder) = known {
            if number <= holder.number {
                return Err(HolderRefusal::Old);
            }
            (holder.number, holder.last) = (number, now);
            return Ok(Holder { id: holder.id, number });
        }
        let of_node = self.holders.get(node).map_or(0, Vec::len);
        if of_node >= MAX_HOLDERS_OF_NODE || !self.has_room(self.owners.guest_of(node).as_deref()) {
            return Err(HolderRefusal::TooMany);
        }
        let id = HolderId(self.next);
        self.next = self.next.saturating_add(1);
        self.add(node.to_owned(), Process { process, id, number, last: now });
        Ok(Holder { id, number })
    }

    /// Whether this owner may have one more process. No number of guests takes a place of the fleet's.
    fn has_room(&self, guest: Option<&str>) -> bool {
        match guest {
            None => self.count.saturating_sub(self.guests.len()) < MAX_HOLDERS,
            Some(guest) => match self.of_guests.get(guest) {
                Some(count) => *count < MAX_HOLDERS_OF_GUEST,
                None => self.of_guests.len() < MAX_GUESTS,
            },
        }
    }

    pub(crate) fn add(&mut self, node: String, process: Process) {
        if let Some(guest) = self.owners.guest_of(&node) {
            let known = self.of_guests.get_key_value(guest.as_str()).map(|(name, _)| name.clone());
            let name = known.unwrap_or_else(|| guest.into());
            let count = self.of_guests.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
            self.guests.insert(process.id, name);
        }
        self.count = self.count.saturating_add(1);
        self.holders.entry(node).or_default().push(process);
    }

    /// Whether no newer report of the process has come since that one, and this limiter knows it. To be asked again before
    /// [`Limiter::exchange`] if others may have called meanwhile: parts of an older report would hide those of the newer one.
    pub fn is_newest(&self, node: &str, process: u64, number: u64) -> bool {
        let all = self.holders.get(node).into_iter().flatten();
        all.filter(|one| one.process == process).any(|one| one.number == number)
    }

    /// Takes the use of one limit out of a report, and gives the process its part from now on. `None` if there is no such limit.
    pub fn exchange(
        &mut self,
        holder: Holder,
        cluster: &str,
        schema: &str,
        used: PartUse,
        now: Duration,
    ) -> Option<LimitAnswer> {
        let shares = self.clusters.get_mut(cluster)?.get_mut(schema)?;
        Some(shares.exchange(holder, self.guests.get(&holder.id), used, now))
    }

    /// Gives back what processes have left behind; looks at all of them at most twice a second.
    fn sweep(&mut self, now: Duration) {
        if now < self.swept.saturating_add(Duration::from_millis(500)) {
            return;
        }
        self.swept = now;
        let guests = &mut self.guests;
        self.holders.retain(|_, all| {
            all.retain(|holder| {
                let is_kept = now < holder.last.saturating_add(RESERVED_FOR);
                if !is_kept {
                    guests.remove(&holder.id);
                }
                is_kept
            });
            !all.is_empty()
        });
        self.count = self.holders.values().map(Vec::len).sum();
        self.of_guests.clear();
        for name in self.guests.values() {
            let count = self.of_guests.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
        }
        self.clusters.values_mut().flat_map(HashMap::values_mut).for_each(|shares| shares.sweep(now));
    }
}
