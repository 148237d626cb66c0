"""How a run ended, from its logs and its processes.

What a single line says is recognised below (livedbg.logs.last_words, the signatures, the crashes). Here it is put
together: `lines` has the known lines of each log, `completed` says whether a run reached its end, `survived` whether a
program went on after an error, `ended` how processes ended, `causes` which error came first and who followed, and
`unexplained` what is said where nothing tells. The rules (livedbg.analysis.rules) make findings of it.
"""
