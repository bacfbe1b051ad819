//! Bytes of an upgrade's client before the upstream has agreed.

/// Holds back an upgrade's body until the upstream's 101. An upstream that refuses reads on, and would take the bytes for the
/// next request, on a connection that carries the gateway's credential. Envoy itself holds them back from 1.39 on, up to 1.38
/// only for WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradeGate {
    /// There is none, or it is open.
    #[default]
    Open,
    /// The upstream has not answered yet.
    Closed,
    /// As above, and something is held back.
    Buffering,
}

impl UpgradeGate {
    /// That of a request that goes upstream.
    pub fn for_request(is_upgrade: bool) -> Self {
        if is_upgrade { UpgradeGate::Closed } else { UpgradeGate::Open }
    }

    /// Whether the upstream has still to answer.
    pub fn is_closed(self) -> bool {
        self != UpgradeGate::Open
    }

    /// Opens it; whether something was held back, which has to go on now.
    pub fn open(&mut self) -> bool {
        std::mem::take(self) == UpgradeGate::Buffering
    }

    /// Whether what the client sends is held back.
    pub fn buffer_body(&mut self) -> bool {
        if self.is_closed() {
            *self = UpgradeGate::Buffering;
        }
        self.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_before_the_101_are_held_back_until_it() {
        let mut plain = UpgradeGate::for_request(false);
        assert!(!plain.buffer_body() && !plain.is_closed() && !plain.open());
        let mut silent = UpgradeGate::for_request(true);
        assert!(silent.is_closed() && !silent.open(), "nothing was held back");
        let mut hasty = UpgradeGate::for_request(true);
        assert!(hasty.buffer_body() && hasty.buffer_body() && hasty.is_closed() && hasty.open());
        assert!(!hasty.is_closed() && !hasty.buffer_body() && !hasty.open(), "once");
    }
}
