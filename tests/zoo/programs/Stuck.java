/** Java threads: `deadlock` takes two monitors crosswise; `idle` waits in accept; `busy` computes. */
class Stuck {
    static final Object one = new Object(), two = new Object();
    static void nap() { try { Thread.sleep(300); } catch (InterruptedException e) { } }
    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "deadlock":
                new Thread(() -> { synchronized (two) { nap(); synchronized (one) { } } }, "writer").start();
                System.out.println("READY");
                synchronized (one) { nap(); synchronized (two) { } }
                break;
            case "idle":
                var server = new java.net.ServerSocket(0);
                System.out.println("READY");
                server.accept();
                break;
            default:
                System.out.println("READY");
                for (long n = 0; ; n++) if (n == -1) System.out.println(n);
        }
    }
}
