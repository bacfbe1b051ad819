//! The bounds that have to hold at each moment.

use std::collections::VecDeque;

use crate::world::SECOND;

/// Requests of a rate are added up in pieces of that length.
const BIN: u64 = SECOND / 10;
/// Pieces that may still change: a gateway's requests are known at its next report.
const OPEN_BINS: usize = 100;

/// Seats of all gateways.
pub(crate) struct SeatsBound {
    pub(crate) max: u64,
    /// Parts under leases.
    pub(crate) parts: u64,
    /// Requests in flight that a lease let through which has not ended since, and the others.
    pub(crate) leased: u64,
    pub(crate) unleased: u64,
    pub(crate) most_leased: u64,
    pub(crate) most_running: u64,
    /// Requests that came, and those that were let through.
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
}

impl SeatsBound {
    pub(crate) fn new(max: u64) -> Self {
        SeatsBound { max, parts: 0, leased: 0, unleased: 0, most_leased: 0, most_running: 0, offered: 0, admitted: 0 }
    }

    /// Whether the bound holds, for all that is known of leases.
    pub(crate) fn holds(&self) -> bool {
        self.parts <= self.max && self.leased <= self.max
    }

    pub(crate) fn note(&mut self) {
        self.most_leased = self.most_leased.max(self.leased);
        self.most_running = self.most_running.max(self.leased + self.unleased);
    }
}

/// A rate of all gateways.
pub(crate) struct RateBound {
    pub(crate) qps: u32,
    pub(crate) burst: u32,
    is_counted: bool,
    /// Parts under leases.
    pub(crate) parts: u64,
    /// Requests under leases less what gateways brought along, by piece of time.
    bins: VecDeque<i64>,
    first_bin: u64,
    /// Tokens per piece, with clocks that are as fast as any.
    per_bin: f64,
    /// Requests in the window that ends now and has most beyond the rate.
    over: f64,
    pub(crate) most_over: f64,
    /// The same for tokens that the limiter issued.
    issued: f64,
    issued_at: u64,
    pub(crate) most_issued: f64,
    pub(crate) brought: u64,
    pub(crate) unleased: u64,
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
}

impl RateBound {
    pub(crate) fn new((qps, burst): (u32, u32), is_counted: bool, fastest: i64) -> Self {
        RateBound {
            qps,
            burst,
            is_counted,
            parts: 0,
            bins: VecDeque::new(),
            first_bin: 0,
            per_bin: f64::from(qps) * BIN as f64 / SECOND as f64 * (1.0 + fastest as f64 / 1e6),
            over: 0.0,
            most_over: 0.0,
            issued: 0.0,
            issued_at: 0,
            most_issued: 0.0,
            brought: 0,
            unleased: 0,
            offered: 0,
            admitted: 0,
        }
    }

    /// Whether the bound holds, for all that is known of leases.
    pub(crate) fn holds(&self) -> bool {
        let burst = f64::from(self.burst);
        // Of a limit that is counted, gateways have tokens ahead: together a burst at most, and what they use in two reports.
        let ahead = if self.is_counted { burst + f64::from(self.qps) } else { 0.0 };
        // Fractions of a token are rounded in the sums here.
        self.parts <= u64::from(self.qps) && self.most_issued <= burst + 0.01 && self.most_over <= burst + ahead + 0.01
    }

    pub(crate) fn offer(&mut self, requests: u64, admitted: u64) {
        self.offered += requests;
        self.admitted += admitted;
    }

    /// Requests under leases, at a time of the last seconds.
    pub(crate) fn admit(&mut self, at: u64, requests: i64) {
        let bin = at / BIN;
        assert!(bin >= self.first_bin, "requests come too late to be counted");
        let place = (bin - self.first_bin) as usize;
        if place >= self.bins.len() {
            self.bins.resize(place + 1, 0);
        }
        self.bins[place] += requests;
        while self.bins.len() > OPEN_BINS {
            let requests = self.bins.pop_front().unwrap_or_default();
            self.first_bin += 1;
            self.over = (self.over + requests as f64 - self.per_bin).max(0.0);
            self.most_over = self.most_over.max(self.over);
        }
    }

    pub(crate) fn issue(&mut self, now: u64, tokens: u32) {
        let passed = (now - self.issued_at) as f64 / SECOND as f64;
        self.issued = (self.issued - f64::from(self.qps) * passed).max(0.0) + f64::from(tokens);
        self.issued_at = now;
        self.most_issued = self.most_issued.max(self.issued);
    }
}
