//! Whether a label selector parses: kube-apiserver narrows a list to a name only if all of its options decode. The
//! grammar and the rules for keys and values are apimachinery's (`labels/selector.go`, `validation.go`).

use crate::dns::is_subdomain;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Comma,
    Open,
    Close,
    Not,
    /// `=`, `==`, `!=`
    Equality,
    /// `<`, `>`
    Order,
    /// `in` and `notin` are words too: only a place that asks for an operator reads them as one.
    Word(&'a [u8]),
}

/// Whether kube-apiserver would accept the selector.
pub(super) fn is_valid(selector: &[u8]) -> bool {
    let mut parser = Parser { rest: selector };
    parser.selector().is_some()
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Option<()> {
        if self.peek() == Token::End {
            return Some(());
        }
        loop {
            self.requirement()?;
            match self.take() {
                Token::End => return Some(()),
                Token::Comma => {}
                _ => return None,
            }
        }
    }

    fn requirement(&mut self) -> Option<()> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.take();
        }
        let Token::Word(key) = self.take() else { return None };
        if !is_qualified_name(key) {
            return None;
        }
        if negated || matches!(self.peek(), Token::End | Token::Comma) {
            return Some(());
        }
        match self.take() {
            Token::Equality => is_label_value(self.exact_value()?).then_some(()),
            Token::Order => {
                let value = self.exact_value()?;
                (is_label_value(value) && is_int64(value)).then_some(())
            }
            Token::Word(b"in" | b"notin") => self.value_list(),
            _ => None,
        }
    }

    fn exact_value(&mut self) -> Option<&'a [u8]> {
        match self.peek() {
            Token::End | Token::Comma => Some(b""),
            Token::Word(value) => {
                self.take();
                Some(value)
            }
            _ => None,
        }
    }

    /// Values in parentheses; an empty one beside a comma counts, and so does one in `()`.
    fn value_list(&mut self) -> Option<()> {
        if self.take() != Token::Open {
            return None;
        }
        if self.peek() == Token::Close {
            self.take();
            return Some(());
        }
        loop {
            match self.take() {
                Token::Word(value) => {
                    if !is_label_value(value) {
                        return None;
                    }
                    match self.peek() {
                        Token::Comma => {}
                        Token::Close => break,
                        _ => return None,
                    }
                }
                Token::Comma => {
                    if self.peek() == Token::Close {
                        break;
                    }
                }
                _ => return None,
            }
        }
        self.take();
        Some(())
    }

    fn peek(&self) -> Token<'a> {
        next_token(self.rest).0
    }

    fn take(&mut self) -> Token<'a> {
        let (token, rest) = next_token(self.rest);
        self.rest = rest;
        token
    }
}

/// A NUL byte is what apimachinery's lexer reads at the end: where a token could start nothing more is read, and right
/// behind a token it is swallowed.
fn next_token(text: &[u8]) -> (Token<'_>, &[u8]) {
    let text = skip_blanks(text);
    let (token, len) = match text {
        [] | [0, ..] => (Token::End, 0),
        [b',', ..] => (Token::Comma, 1),
        [b'(', ..] => (Token::Open, 1),
        [b')', ..] => (Token::Close, 1),
        [b'=', b'=', ..] | [b'!', b'=', ..] => (Token::Equality, 2),
        [b'=', ..] => (Token::Equality, 1),
        [b'!', ..] => (Token::Not, 1),
        [b'<' | b'>', ..] => (Token::Order, 1),
        _ => {
            let len =
                text.iter().position(|byte| is_special(*byte) || is_blank(*byte) || *byte == 0).unwrap_or(text.len());
            (Token::Word(text.get(..len).unwrap_or_default()), len)
        }
    };
    let rest = text.get(len..).unwrap_or_default();
    (token, if len > 0 { rest.strip_prefix(b"\0").unwrap_or(rest) } else { rest })
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'<' | b'>')
}

fn is_int64(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok())
}

/// An optional DNS subdomain and a slash, then a name.
fn is_qualified_name(key: &[u8]) -> bool {
    let name = match key.iter().position(|byte| *byte == b'/') {
        Some(slash) => {
            let (prefix, rest) = key.split_at(slash);
            if !is_subdomain(prefix) {
                return false;
            }
            rest.get(1..).unwrap_or_default()
        }
        None => key,
    };
    !name.is_empty() && is_label_value(name)
}

fn is_label_value(value: &[u8]) -> bool {
    let outer_ok = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    value.len() <= 63
        && outer_ok(value.first())
        && outer_ok(value.last())
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
