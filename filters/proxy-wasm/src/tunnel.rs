/// What an upgrade's client sends goes upstream only after the upstream's 101. An upstream that refuses reads on, and would
/// take it for the next request, on a connection that carries the gateway's credential. Envoy holds it back itself from 1.39
/// on, up to 1.38 only for WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// There is none, or it is open.
    #[default]
    Open,
    /// The upstream has not answered yet.
    Closed,
    /// As above, and something is held back.
    Holding,
}

impl Tunnel {
    /// Whether the upstream has still to answer.
    pub(crate) fn is_closed(self) -> bool {
        self != Tunnel::Open
    }

    /// Opens it; whether something was held back, which has to go on now.
    pub(crate) fn open(&mut self) -> bool {
        std::mem::take(self) == Tunnel::Holding
    }

    /// Whether what the client sends is held back.
    pub(crate) fn holds(&mut self) -> bool {
        if self.is_closed() {
            *self = Tunnel::Holding;
        }
        self.is_closed()
    }
}
