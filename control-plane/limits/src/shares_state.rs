//! One limit written down, for another process to go on with.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};

use crate::granted::Granted;
use crate::guests::{Guest, Guests};
use crate::holder::HolderId;
use crate::holdings::{Holding, Holdings};
use crate::issue::Issue;
use crate::message::{GuestState, HoldingState, LimitState, SharesState, nanoseconds};
use crate::owners::GuestName;
use crate::shares::Shares;
use crate::spare::SpareTokens;

impl Shares {
    pub(crate) fn write(&self) -> SharesState {
        let is_counted = self.limit.strategy == GlobalStrategy::Count;
        let limit = match self.limit.limit {
            FlowControlLimit::MaxRequestsInflight(units) => LimitState { is_counted, is_rate: false, units, burst: 0 },
            FlowControlLimit::TokenBucket { qps, burst } => LimitState { is_counted, is_rate: true, units: qps, burst },
        };
        let pools = std::iter::once(&self.fleet).chain(self.guests.0.values().map(|guest| &guest.pool));
        let (issue_level, issue_at) = self.issue.write();
        let (spare_level, spare_at) = self.spare.write();
        SharesState {
            limit,
            learns_until: nanoseconds(self.learns_until),
            issues_from: nanoseconds(self.issues_from),
            issue_level,
            issue_at,
            holdings: pools.flat_map(|pool| written(&pool.holdings)).collect(),
            spare_level,
            spare_at,
            guests: self.guests.0.iter().map(|(name, guest)| guest.write(name)).collect(),
            fleet_until: nanoseconds(self.fleet_until),
        }
    }

    /// The limit that was written down. `guests` has the owner of each process that is a guest's.
    pub(crate) fn read(state: &SharesState, guests: &BTreeMap<HolderId, GuestName>, now: Duration) -> Self {
        let LimitState { is_counted, is_rate, units, burst } = state.limit;
        let strategy = if is_counted { GlobalStrategy::Count } else { GlobalStrategy::Allocate };
        let limit = match is_rate {
            true => FlowControlLimit::TokenBucket { qps: units, burst },
            false => FlowControlLimit::MaxRequestsInflight(units),
        };
        let learns_until = Duration::from_nanos(state.learns_until);
        let all = || state.holdings.iter().map(|one| (guests.get(&HolderId(one.holder)), read(one)));
        let mut of_guests = Guests::default();
        for (guest, (id, holding)) in all() {
            let Some(name) = guest else { continue };
            // A control plane of a release without guests has written down their parts alone.
            of_guests.rank(name, now, now < learns_until);
            let Some(guest) = of_guests.get_mut(name) else { continue };
            let position = guest.pool.holdings.position(id, holding.first);
            guest.pool.holdings.set(position, holding);
        }
        for one in &state.guests {
            of_guests.get_mut(&one.name.as_str().into()).into_iter().for_each(|guest| guest.read(one));
        }
        Self {
            limit: GlobalLimit { limit, strategy },
            learns_until,
            fleet: all().filter(|(guest, _)| guest.is_none()).map(|(_, holding)| holding).collect(),
            fleet_until: Duration::from_nanos(state.fleet_until),
            guests: of_guests,
            issue: Issue::read(state.issue_level, state.issue_at),
            issues_from: Duration::from_nanos(state.issues_from),
            spare: SpareTokens::read(state.spare_level, state.spare_at),
        }
    }
}

impl Guest {
    fn write(&self, name: &GuestName) -> GuestState {
        let (issue_level, issue_at) = self.issue.write();
        GuestState {
            name: name.to_string(),
            claims: self.claims,
            issue_level,
            issue_at,
            excess_until: self.excess_until.map(nanoseconds),
            granted: self.granted.newest,
            granted_most: self.granted.most,
            granted_before: self.granted.most_before,
            granted_since: nanoseconds(self.granted.since),
        }
    }

    fn read(&mut self, state: &GuestState) {
        self.claims = state.claims;
        self.granted = Granted {
            newest: state.granted,
            most: state.granted_most,
            most_before: state.granted_before,
            since: Duration::from_nanos(state.granted_since),
        };
        self.issue = Issue::read(state.issue_level, state.issue_at);
        self.excess_until = state.excess_until.map(Duration::from_nanos);
    }
}

fn written(holdings: &Holdings) -> impl Iterator<Item = HoldingState> {
    holdings.iter().map(|(holder, holding)| HoldingState {
        holder: holder.0,
        reserved: holding.reserved,
        wanted: holding.wanted,
        wanted_at: nanoseconds(holding.wanted_at),
        first: nanoseconds(holding.first),
        last: nanoseconds(holding.last),
        number: holding.number,
        held: holding.held,
        tokens: holding.tokens,
    })
}

fn read(state: &HoldingState) -> (HolderId, Holding) {
    let holding = Holding {
        reserved: state.reserved,
        wanted: state.wanted,
        wanted_at: Duration::from_nanos(state.wanted_at),
        first: Duration::from_nanos(state.first),
        last: Duration::from_nanos(state.last),
        number: state.number,
        held: state.held,
        tokens: state.tokens,
    };
    (HolderId(state.holder), holding)
}
