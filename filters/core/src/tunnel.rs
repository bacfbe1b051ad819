//! What an upgrade's client may say before the upstream has agreed.

/// What an upgrade's client sends goes upstream only after the upstream's 101. An upstream that refuses reads on, and would
/// take it for the next request, on a connection that carries the gateway's credential. Envoy holds it back itself from 1.39
/// on, up to 1.38 only for WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// There is none, or it is open.
    #[default]
    Open,
    /// The upstream has not answered yet.
    Closed,
    /// As above, and something is held back.
    Holding,
}

impl Tunnel {
    /// That of a request that goes upstream.
    pub fn of(is_upgrade: bool) -> Self {
        if is_upgrade { Tunnel::Closed } else { Tunnel::Open }
    }

    /// Whether the upstream has still to answer.
    pub fn is_closed(self) -> bool {
        self != Tunnel::Open
    }

    /// Opens it; whether something was held back, which has to go on now.
    pub fn open(&mut self) -> bool {
        std::mem::take(self) == Tunnel::Holding
    }

    /// Whether what the client sends is held back.
    pub fn holds(&mut self) -> bool {
        if self.is_closed() {
            *self = Tunnel::Holding;
        }
        self.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_101_is_held_back_and_goes_on_with_it() {
        let mut plain = Tunnel::of(false);
        assert!(!plain.holds() && !plain.is_closed() && !plain.open());
        let mut silent = Tunnel::of(true);
        assert!(silent.is_closed() && !silent.open(), "nothing was held back");
        let mut hasty = Tunnel::of(true);
        assert!(hasty.holds() && hasty.holds() && hasty.is_closed() && hasty.open());
        assert!(!hasty.is_closed() && !hasty.holds() && !hasty.open(), "once");
    }
}
