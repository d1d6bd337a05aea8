//! The proxy as a test uses it: whole, cut, silent, slow, healed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tidemill_testkit::Proxy;

/// Long enough for a local round trip on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a silence is listened to.
const SILENCE: Duration = Duration::from_millis(300);

/// A server that sends back what it gets.
fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                std::io::copy(&mut reader, &mut { stream }).ok();
            });
        }
    });
    port
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn echoes(stream: &mut TcpStream) {
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    stream.write_all(b"ping").unwrap();
    let read = stream.read(&mut [0; 4]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn a_cut_ends_connections_and_refuses_new_ones_until_it_is_healed() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut stream = connect(&proxy);
    echoes(&mut stream);
    proxy.cut().unwrap();
    let ended = stream.read(&mut [0; 4]);
    assert!(
        ended.as_ref().is_ok_and(|read| *read == 0)
            || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    );
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.heal().unwrap();
    echoes(&mut connect(&proxy));
}

#[test]
fn a_silence_swallows_bytes_of_open_and_new_connections_and_new_ones_work_after_it() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut before = connect(&proxy);
    echoes(&mut before);
    proxy.silence().unwrap();
    let mut during = connect(&proxy);
    assert!(is_silent(&mut before) && is_silent(&mut during));
    proxy.heal().unwrap();
    echoes(&mut connect(&proxy));
    assert!(is_silent(&mut before), "bytes are missing from its stream for ever");
    assert!(is_silent(&mut during), "bytes are missing from its stream for ever");
}

#[test]
fn a_slow_network_passes_everything_late() {
    let proxy = Proxy::start(echo()).unwrap();
    let mut stream = connect(&proxy);
    echoes(&mut stream);
    proxy.slow(Duration::from_millis(50)).unwrap();
    let begun = std::time::Instant::now();
    echoes(&mut stream);
    assert!(begun.elapsed() >= Duration::from_millis(100), "each way is late");
    proxy.heal().unwrap();
    echoes(&mut stream);
}
