// Rust: two mutexes taken crosswise; `channel`: a receiver whose sender never sends.
use std::sync::{mpsc, Arc, Mutex};
use std::{env, thread, time::Duration};

fn main() {
    let what = env::args().nth(1).unwrap_or_default();
    if what == "channel" {
        let (sender, receiver) = mpsc::channel::<i32>();
        println!("READY");
        let _ = receiver.recv();
        drop(sender);
        return;
    }
    let (one, two) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let (first, second) = (one.clone(), two.clone());
    thread::spawn(move || {
        let _b = second.lock().unwrap();
        thread::sleep(Duration::from_millis(300));
        let _a = first.lock().unwrap();
    });
    let _a = one.lock().unwrap();
    thread::sleep(Duration::from_millis(300));
    println!("READY");
    let _b = two.lock().unwrap();
}
